// The replay of a trace yields the state that the allocator model had at each moment.
#include "snapshot/snapshot_replay.h"

#include <random>

#include "support/test_support.h"
#include "unit/snapshot/caching_allocator_model.h"

namespace headroom::snapshot {
namespace {

using test::CachingAllocatorModel;

struct Peaks {
  std::int64_t allocated = 0, reserved = 0;
  std::string doubt;
};

Peaks peaks_of(const Snapshot& snapshot) {
  SnapshotReplay replay(snapshot, 0);
  Peaks peaks{replay.totals().allocated, replay.totals().reserved, ""};
  while (!replay.at_end()) {
    (void)replay.step();
    peaks.allocated = std::max(peaks.allocated, replay.totals().allocated);
    peaks.reserved = std::max(peaks.reserved, replay.totals().reserved);
  }
  peaks.doubt = replay.doubt();
  return peaks;
}

// `steps` random allocations and releases.
void run(CachingAllocatorModel& model, std::mt19937& random, int steps, std::vector<std::uint64_t>& live) {
  const std::int64_t kSizes[] = {1,       300,           512,     4000,           70'000,
                                 1 << 20, (1 << 20) + 1, 3 << 20, (7 << 20) + 77, 30 << 20};
  for (int i = 0; i < steps; ++i) {
    const auto choice = random() % 100;
    if (choice < 52 || live.empty()) {
      if (const auto address = model.allocate(kSizes[random() % std::size(kSizes)] + random() % 2000,
                                              static_cast<std::uint32_t>(random() % 60), random() % 3))
        live.push_back(*address);
    } else if (choice < 96) {
      const std::size_t which = random() % live.size();
      model.release(live[which], random() % 8 == 0);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    } else if (choice < 98) {
      model.synchronize();
    } else {
      model.empty_cache();
    }
  }
}

class ReplayOfARandomRun : public testing::TestWithParam<bool> {};

TEST_P(ReplayOfARandomRun, IsExactFromTheBeginning) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    CachingAllocatorModel model({.device_bytes = 700 << 20, .expandable = GetParam()});
    std::vector<std::uint64_t> live;
    run(model, random, 600, live);
    const Snapshot snapshot = model.take();
    const Peaks peaks = peaks_of(snapshot);
    EXPECT_EQ(peaks.doubt, "");
    EXPECT_EQ(peaks.allocated, model.peak_allocated);
    EXPECT_EQ(peaks.reserved, model.peak_reserved);
  }
}

// History was enabled later. Blocks that stay have a known size. A released block was at least as large as
// its request, and at most 1 MiB larger.
TEST_P(ReplayOfARandomRun, IsExactOrMarkedAsUncertainFromTheMiddle) {
  int exact = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    CachingAllocatorModel model({.device_bytes = 700 << 20, .expandable = GetParam()});
    std::vector<std::uint64_t> live;
    run(model, random, 300, live);
    const std::size_t before = model.entries(), blocks = live.size();
    model.reset_peaks();
    run(model, random, 300, live);
    const Peaks peaks = peaks_of(model.take(model.entries() - before));
    EXPECT_EQ(peaks.reserved, model.peak_reserved);
    if (peaks.doubt.empty()) {
      ++exact;
      EXPECT_EQ(peaks.allocated, model.peak_allocated);
    }
    EXPECT_LE(std::abs(peaks.allocated - model.peak_allocated),
              static_cast<std::int64_t>(blocks) * (1 << 20));
  }
  EXPECT_GT(exact, 0);
}

INSTANTIATE_TEST_SUITE_P(Segments, ReplayOfARandomRun, testing::Bool(),
                         [](const auto& which) { return which.param ? "expandable" : "plain"; });

TEST(SnapshotReplay, StateMatchesAllocatorAtEachMoment) {
  CachingAllocatorModel model;
  const auto a = model.allocate(1000, 1);
  model.allocate(600'000, 2);
  model.release(*a);
  model.allocate(5 << 20, 3);
  const Snapshot snapshot = model.take();
  SnapshotReplay replay(snapshot, 0);
  EXPECT_EQ(replay.state().segments.size(), 0U);
  while (!replay.at_end()) (void)replay.step();
  const DeviceState state = replay.state();
  ASSERT_EQ(state.segments.size(), 2U);
  const auto small = state.blocks_of(state.segments[0]);
  ASSERT_EQ(small.size(), 3U);
  EXPECT_FALSE(small[0].is_live());
  EXPECT_EQ(small[0].size, 1024);
  EXPECT_EQ(small[1].requested, 600'000);
  EXPECT_EQ(small[1].stack.index, 2U);
  EXPECT_EQ(small[1].born, 2U) << "entry 0 is the segment's";
  EXPECT_TRUE(state.loose.empty());
}

// Traces of a profiler or damaged ones: the replay continues and marks its result as uncertain.
TEST(SnapshotReplay, MarksInconsistentTraceAsUncertain) {
  const auto doubt = [](std::vector<TraceEntry> entries) {
    CachingAllocatorModel model;
    (void)model.allocate(1000);
    Snapshot snapshot = model.take(0);
    for (const auto& entry : entries) snapshot.entries.push_back(entry);
    snapshot.traces.push_back({0, 0, entries.size()});
    return peaks_of(snapshot).doubt;
  };
  const std::uint64_t base = std::uint64_t{1} << 40;
  const auto entry = [](Action action, std::uint64_t address, std::int64_t size) {
    return TraceEntry{address, size, 0, {}, 0, action};
  };
  EXPECT_NE(doubt({entry(Action::alloc, base + 8192, 512)}), "") << "it is not live at the end";
  EXPECT_NE(doubt({entry(Action::alloc, base, 1000), entry(Action::alloc, base, 1000)}), "");
  EXPECT_NE(doubt({entry(Action::segment_free, base, 2 << 20)}), "") << "it is still there";
  EXPECT_NE(doubt({entry(Action::segment_alloc, base, 4 << 20)}), "");
  EXPECT_NE(doubt({entry(Action::free_completed, 512, 100)}), "") << "it lay in no segment";
  EXPECT_NE(doubt({entry(Action::segment_unmap, base + 512, 512)}), "");
  EXPECT_NE(doubt({entry(Action::snapshot, 0, 5)}), "") << "PyTorch had another sum then";
  EXPECT_EQ(doubt({entry(Action::snapshot, 0, 1024)}), "");
}

TEST(TorchAllocatorRules, RoundsAsPyTorchDoes) {
  AllocatorSettings settings;
  const TorchAllocatorRules plain(settings);
  EXPECT_EQ(plain.rounded(0), 512);
  EXPECT_EQ(plain.rounded(1), 512);
  EXPECT_EQ(plain.rounded(513), 1024);
  EXPECT_EQ(plain.rounded(1200), 1536);
  // Four steps between powers of two (PyTorch's example): 1024, 1280, 1536, 1792; here in KiB.
  settings.roundup_power2_divisions = {{1, 4}, {256, 2}};
  const TorchAllocatorRules divided(settings);
  EXPECT_EQ(divided.rounded(1200 << 10), 1280 << 10);
  EXPECT_EQ(divided.rounded(1280 << 10), 1280 << 10);
  EXPECT_EQ(divided.rounded(1024 << 10), 1024 << 10);
  EXPECT_EQ(divided.rounded(300 << 20), 384 << 20) << "two steps from 256 MiB on";
  EXPECT_EQ(divided.rounded(1200), 1536) << "too small to be divided";
  EXPECT_TRUE(plain.is_cut(2 << 20, (2 << 20) - 512, false, false));
  EXPECT_FALSE(plain.is_cut(20 << 20, 19 << 20, true, false));
  EXPECT_TRUE(plain.is_cut(20 << 20, 19 << 20, true, true));
  settings.max_split_bytes = 8 << 20;
  EXPECT_FALSE(TorchAllocatorRules(settings).is_cut(40 << 20, 9 << 20, true, false));
  EXPECT_EQ(TorchAllocatorRules::segment_size(512), 2 << 20);
  EXPECT_EQ(TorchAllocatorRules::segment_size(3 << 20), 20 << 20);
  EXPECT_EQ(TorchAllocatorRules::segment_size((11 << 20) + 512), 12 << 20);
}

}  // namespace
}  // namespace headroom::snapshot
