// The analysis of a known allocator's trace: owners of the peak, leaks, blockers, and ways to free enough
// memory.
#include "snapshot/snapshot_analysis.h"

#include "support/test_support.h"
#include "unit/snapshot/caching_allocator_model.h"

namespace headroom::snapshot {
namespace {

using test::CachingAllocatorModel;
using testing::IsEmpty;

constexpr std::int64_t kMiB = 1 << 20;

DeviceAnalysis analyze(const CachingAllocatorModel& model, std::size_t entries = ~std::size_t{0}) {
  const Snapshot snapshot = model.take(entries);
  auto devices = analyze_snapshot(snapshot, {});
  EXPECT_EQ(devices.size(), 1U);
  return std::move(devices.at(0));
}

const PlaceFigures* figures_of(const DeviceAnalysis& device, std::uint32_t stack) {
  for (const PlaceFigures& figures : device.figures)
    if (device.places[figures.place].stack.index == stack) return &figures;
  return nullptr;
}

TEST(SnapshotAnalysis, ListsOwnersOfPeakAndOfEnd) {
  CachingAllocatorModel model;
  model.allocate(30 * kMiB, 1);
  for (int i = 0; i < 3; ++i) {
    const auto a = model.allocate(4 * kMiB, 2), b = model.allocate(i == 1 ? 8 * kMiB : 2 * kMiB, 3);
    model.release(*a);
    model.release(*b);
  }
  const DeviceAnalysis device = analyze(model);
  EXPECT_EQ(device.doubt, "");
  EXPECT_EQ(device.live_bytes, 30 * kMiB);
  EXPECT_EQ(device.peak_allocated_bytes, model.peak_allocated);
  EXPECT_EQ(device.peak_allocated_bytes, 42 * kMiB);
  EXPECT_EQ(device.peak_reserved_bytes, model.peak_reserved);
  EXPECT_EQ(device.moments[device.peak].totals.allocated, 42 * kMiB);
  EXPECT_EQ(figures_of(device, 1)->peak_bytes, 30 * kMiB);
  EXPECT_EQ(figures_of(device, 1)->live_blocks, 1);
  EXPECT_EQ(figures_of(device, 2)->peak_bytes, 4 * kMiB);
  EXPECT_EQ(figures_of(device, 3)->peak_bytes, 8 * kMiB);
  EXPECT_EQ(figures_of(device, 3)->live_bytes, 0);
  EXPECT_EQ(figures_of(device, 3)->allocations, 3);
  EXPECT_EQ(figures_of(device, 3)->allocated_bytes, 12 * kMiB);
  EXPECT_EQ(device.actions[static_cast<std::size_t>(Action::alloc)], 7);
  std::int64_t highest = 0;
  for (const auto& point : device.timeline.points) highest = std::max(highest, point.highest);
  EXPECT_EQ(highest, 42 * kMiB) << "no peak is lost in the timeline";
}

TEST(SnapshotAnalysis, TimelineShowsBytesOfEachPlace) {
  CachingAllocatorModel model;
  model.allocate(30 * kMiB, 1);
  for (int i = 0; i < 40; ++i) {
    const auto a = model.allocate((4 + i % 3) * kMiB, 2), b = model.allocate(2 * kMiB, 3);
    model.release(*a);
    model.release(*b);
  }
  const Snapshot snapshot = model.take(120);  // the start of the trace is lost
  SnapshotOptions options;
  options.timeline_points = 7;
  options.timeline_places = 2;
  auto devices = analyze_snapshot(snapshot, options);
  const DeviceAnalysis& device = devices.at(0);
  const SnapshotTimeline& timeline = device.timeline;
  ASSERT_EQ(timeline.places.size(), 2U);
  EXPECT_EQ(device.places[timeline.places[0]].stack.index, 1U);
  EXPECT_EQ(device.places[timeline.places[1]].stack.index, 2U);
  ASSERT_EQ(timeline.place_bytes.size(), timeline.points.size());
  for (std::size_t i = 0; i < timeline.points.size(); ++i) {
    const auto& held = timeline.place_bytes[i];
    EXPECT_EQ(held.at(0), 30 * kMiB);
    EXPECT_EQ(timeline.points[i].highest - held.at(0) - held.at(1), 2 * kMiB) << "of the third place";
  }
  EXPECT_THAT(analyze(model).timeline.places, IsEmpty()) << "not requested";
}

TEST(SnapshotAnalysis, FindsPeakBeforeFirstEntry) {
  CachingAllocatorModel model;
  const auto a = model.allocate(64 * kMiB, 1);
  model.allocate(2 * kMiB, 2);
  const std::size_t before = model.entries();
  model.release(*a);
  const DeviceAnalysis device = analyze(model, model.entries() - before);
  EXPECT_EQ(device.before.allocated, 66 * kMiB);
  EXPECT_EQ(device.peak_allocated_bytes, 66 * kMiB);
  EXPECT_EQ(device.peak_position, 0U);
  EXPECT_EQ(figures_of(device, 2)->peak_bytes, 2 * kMiB);
}

// 40 iterations, each of which allocates and releases three activations.
void iterate(CachingAllocatorModel& model, const std::function<void(int)>& also) {
  for (int i = 0; i < 40; ++i) {
    const auto a = model.allocate(3 * kMiB, 2), b = model.allocate(3 * kMiB, 3),
               c = model.allocate(5 * kMiB, 4);
    also(i);
    for (const auto& address : {c, b, a}) model.release(*address);
  }
}

TEST(SnapshotLeaks, MemoryKeptInEachIterationIsALeak) {
  CachingAllocatorModel model;
  for (int i = 0; i < 60; ++i) model.allocate(2 * kMiB, 1);  // weights
  iterate(model, [&](int) { model.allocate(100'000, 7); });
  const SnapshotLeaks leaks = analyze(model).leaks;
  EXPECT_EQ(leaks.growth, monitoring::Growth::leak);
  const DeviceAnalysis device = analyze(model);
  const auto& worst = device.leaks.places.at(0);
  EXPECT_EQ(device.places[worst.place].stack.index, 7U);
  EXPECT_EQ(worst.growth, monitoring::Growth::leak);
  EXPECT_EQ(worst.allocations, 40);
  EXPECT_EQ(worst.live_blocks, 40);
  for (const PlaceGrowth& place : device.leaks.places)
    EXPECT_EQ(place.growth == monitoring::Growth::leak, device.places[place.place].stack.index == 7U);
  // 40 blocks of 98 KiB in some 340 entries.
  const double per_entry =
      device.leaks.bytes_per_window / static_cast<double>(device.leaks.entries_per_window);
  EXPECT_NEAR(per_entry, 100'352.0 / 8, 3'000);
}

TEST(SnapshotLeaks, WeightsCachesAndActivationsAreNotLeaks) {
  CachingAllocatorModel model;
  for (int i = 0; i < 60; ++i) model.allocate(2 * kMiB, 1);
  iterate(model, [&](int i) {
    if (i < 5) model.allocate(200'000, 8);  // a cache that fills up
  });
  const DeviceAnalysis device = analyze(model);
  EXPECT_EQ(device.leaks.growth, monitoring::Growth::grew_then_stayed);
  CachingAllocatorModel plain;
  iterate(plain, [](int) {});
  EXPECT_EQ(analyze(plain).leaks.growth, monitoring::Growth::none);
  EXPECT_THAT(analyze(plain).leaks.places, IsEmpty());
  CachingAllocatorModel short_run;
  for (int i = 0; i < 20; ++i) short_run.allocate(2 * kMiB, 1);
  EXPECT_EQ(analyze(short_run).leaks.growth, monitoring::Growth::unknown);
}

// A segment of 20 MiB: 5 free, 3 live, 6 free, and 5 live in a block of 6, because 1 MiB is not split off.
TEST(SnapshotMoment, FindsBlocker) {
  CachingAllocatorModel model;
  const auto a = model.allocate(5 * kMiB, 1);
  model.allocate(3 * kMiB, 2);
  const auto c = model.allocate(6 * kMiB, 3);
  model.allocate(5 * kMiB, 4);
  model.release(*a);
  model.release(*c);
  const DeviceAnalysis device = analyze(model);
  const SnapshotMoment& end = device.end;
  EXPECT_EQ(end.free_bytes, 11 * kMiB);
  EXPECT_EQ(end.largest_free_bytes, 6 * kMiB);
  EXPECT_EQ(end.holes, 2);
  ASSERT_TRUE(end.blocker.has_value());
  EXPECT_EQ(end.blocker->block.stack.index, 2U);
  EXPECT_EQ(end.blocker->freed_if_gone, 14 * kMiB);
  EXPECT_FALSE(end.blocker->empties_segment);
  EXPECT_EQ(device.worst, 1U) << "when the first block alone was in it";
  EXPECT_EQ(device.moments[1].free_bytes, 15 * kMiB);
}

TEST(SnapshotMoment, SmallBlockKeepsLargeSegment) {
  CachingAllocatorModel model;
  const auto a = model.allocate(9 * kMiB, 1);
  model.allocate(2 * kMiB, 2);
  model.release(*a);
  const SnapshotMoment end = analyze(model).end;
  ASSERT_TRUE(end.blocker.has_value());
  EXPECT_TRUE(end.blocker->empties_segment);
  EXPECT_EQ(end.blocker->freed_if_gone, 20 * kMiB);
}

const RoomMaker* way_of(const OomAutopsy& oom, RoomBy by) {
  for (const RoomMaker& way : oom.ways)
    if (way.by == by) return &way;
  return nullptr;
}

// Three segments of 20 MiB on a device of 64 MiB. Each has blocks of 6 MiB, and every other was released.
TEST(SnapshotOom, DistinguishesFragmentationFromLackOfMemory) {
  CachingAllocatorModel model({.device_bytes = 64 * kMiB});
  std::vector<std::uint64_t> blocks;
  for (std::uint32_t i = 0; i < 9; ++i) blocks.push_back(*model.allocate(6 * kMiB, i % 3 + 1));
  for (const std::size_t i : {0, 2, 3, 5, 6, 8}) model.release(blocks[i]);
  ASSERT_FALSE(model.allocate(16 * kMiB, 9).has_value());
  const DeviceAnalysis device = analyze(model);
  EXPECT_EQ(device.oom_count, 1);
  const OomAutopsy& oom = device.ooms.at(0);
  EXPECT_EQ(oom.requested, 16 * kMiB);
  EXPECT_EQ(oom.segment, 16 * kMiB);
  EXPECT_EQ(oom.device_free, 4 * kMiB);
  EXPECT_EQ(oom.stack.index, 9U);
  EXPECT_EQ(oom.totals.allocated, 18 * kMiB);
  EXPECT_EQ(oom.free_in_segments, 42 * kMiB);
  EXPECT_EQ(oom.largest_fitting, 8 * kMiB);
  ASSERT_EQ(oom.holders.size(), 1U);
  EXPECT_EQ(device.places[oom.holders[0].place].stack.index, 2U);
  EXPECT_EQ(oom.holders[0].bytes, 18 * kMiB);
  EXPECT_EQ(oom.holders[0].blocks, 3);
  ASSERT_NE(way_of(oom, RoomBy::defragmenting), nullptr);
  EXPECT_EQ(way_of(oom, RoomBy::defragmenting)->bytes, 42 * kMiB);
  const RoomMaker* fewest = way_of(oom, RoomBy::fewest_bytes);
  ASSERT_NE(fewest, nullptr);
  EXPECT_EQ(fewest->bytes, 6 * kMiB) << "one block in the middle of a segment";
  EXPECT_EQ(fewest->blocks, 1);
  EXPECT_TRUE(fewest->as_hole);
  // The suggested release does free enough memory.
  for (const std::size_t i : {1}) model.release(blocks[i]);
  EXPECT_TRUE(model.allocate(16 * kMiB, 9).has_value());
}

TEST(SnapshotOom, NamesPlaceWhoseReleaseIsEnough) {
  CachingAllocatorModel model({.device_bytes = 100 * kMiB});
  model.allocate(40 * kMiB, 1);
  const auto cache = model.allocate(30 * kMiB, 2);
  model.allocate(2 * kMiB, 3);
  ASSERT_FALSE(model.allocate(36 * kMiB, 9).has_value());
  const DeviceAnalysis device = analyze(model);
  const OomAutopsy& oom = device.ooms.at(0);
  EXPECT_EQ(oom.device_free, 10 * kMiB);
  EXPECT_EQ(way_of(oom, RoomBy::defragmenting), nullptr) << "18 MiB are free in pieces, and 10 on the device";
  EXPECT_EQ(way_of(oom, RoomBy::waiting), nullptr);
  const RoomMaker* one = way_of(oom, RoomBy::one_place);
  ASSERT_NE(one, nullptr);
  ASSERT_EQ(one->places.size(), 1U);
  EXPECT_EQ(device.places[one->places[0].place].stack.index, 2U)
      << "of those that would do, that with fewest bytes";
  EXPECT_FALSE(one->as_hole) << "its segment goes back to the device";
  model.release(*cache);
  EXPECT_TRUE(model.allocate(36 * kMiB, 9).has_value());
}

TEST(SnapshotOom, NamesBlocksThatWaitForAnotherStream) {
  CachingAllocatorModel model({.device_bytes = 50 * kMiB});
  const auto a = model.allocate(40 * kMiB, 1);
  model.release(*a, true);
  ASSERT_FALSE(model.allocate(20 * kMiB, 9).has_value());
  const DeviceAnalysis device = analyze(model);
  const OomAutopsy& oom = device.ooms.at(0);
  EXPECT_EQ(oom.pending_bytes, 40 * kMiB);
  ASSERT_NE(way_of(oom, RoomBy::waiting), nullptr);
  EXPECT_EQ(way_of(oom, RoomBy::waiting)->bytes, 40 * kMiB);
  ASSERT_FALSE(model.allocate(900 * kMiB, 9).has_value());
  EXPECT_THAT(analyze(model).ooms.at(1).ways, IsEmpty()) << "more than the device has";
}

TEST(SnapshotAnalysis, SeparatesDevices) {
  CachingAllocatorModel model;
  model.allocate(4 * kMiB, 1);
  Snapshot snapshot = model.take();
  snapshot.segments.push_back(snapshot.segments[0]);
  snapshot.segments[1].device = 3;
  const auto devices = analyze_snapshot(snapshot, {});
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].device, 0);
  EXPECT_EQ(devices[1].device, 3);
  EXPECT_EQ(devices[1].entries, 0);
  EXPECT_EQ(devices[1].live_bytes, 4 * kMiB);
  EXPECT_EQ(devices[1].peak_allocated_bytes, 4 * kMiB) << "without a trace, that of the end";
}

TEST(AllocationPlaces, GroupsBySizeWithoutStack) {
  AllocationPlaces places;
  EXPECT_EQ(places.of({1}, 100), places.of({1}, 200));
  EXPECT_NE(places.of({}, 100), places.of({}, 200));
  EXPECT_EQ(places[places.of({}, 100)].requested_bytes, 100);
  EXPECT_EQ(places[places.of({1}, 100)].requested_bytes, std::nullopt);
}

}  // namespace
}  // namespace headroom::snapshot
