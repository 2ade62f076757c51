#include <fmt/format.h>

#include "attribution/recording_analysis.h"
#include "export_fixture.h"
#include "snapshot/snapshot_analysis.h"
#include "snapshot/snapshot_reader.h"

namespace headroom::exporters {
namespace {

using snapshot::Action;
using snapshot::Snapshot;

// Reads the export with the reader for PyTorch's snapshots, which checks that blocks fill their segments.
Snapshot snapshot_of(ExportFixture& fixture) {
  const std::string pickle = fixture.write("pytorch-snapshot");
  auto input = snapshot::PickleInput::of(pickle);
  auto read = snapshot::read_snapshot(input);
  EXPECT_TRUE(read.has_value()) << read.error().sentence();
  if (!read) return {};
  EXPECT_THAT(read->problems, testing::IsEmpty());
  return std::move(*read);
}

std::vector<std::string> entries_of(const Snapshot& snapshot, std::int64_t device) {
  std::vector<std::string> entries;
  const auto* trace = snapshot.trace_of(device);
  for (std::size_t i = 0; trace != nullptr && i < trace->entry_count; ++i) {
    const snapshot::TraceEntry& entry = snapshot.entry(*trace, i);
    entries.push_back(fmt::format("{} {:x} {}", name_of(entry.action), entry.address, entry.size));
  }
  return entries;
}

std::vector<std::string> frames_of(const Snapshot& snapshot, snapshot::StackIndex stack) {
  std::vector<std::string> names;
  for (const std::uint32_t frame : snapshot.frames_of(stack))
    names.emplace_back(snapshot.strings[snapshot.frames[frame].function]);
  return names;
}

TEST(PytorchSnapshot, WritesTheHeapAsADeviceWithBlocksAndLayers) {
  ExportFixture fixture(fill_two_layers);
  const Snapshot snapshot = snapshot_of(fixture);
  EXPECT_EQ(entries_of(snapshot, 0),
            (std::vector<std::string>{"alloc 1000 1000", "alloc 2000 4000", "free_requested 2000 4000",
                                      "free_completed 2000 4000", "alloc 3000 500", "free_requested 3000 500",
                                      "free_completed 3000 500"}));
  const auto& conv = snapshot.entry(*snapshot.trace_of(0), 1);
  EXPECT_EQ(frames_of(snapshot, conv.stack), (std::vector<std::string>{"0x2", "0x9", "conv", "model"}));
  ASSERT_EQ(snapshot.segments.size(), 1U);  // from 0x1000 to the end of the block at 0x3000
  EXPECT_EQ(snapshot.segments[0].address, 0x1000U);
  std::int64_t live = 0;
  for (const auto& block : snapshot.blocks)
    if (block.is_live()) live += block.requested;
  EXPECT_EQ(live, 1000);
}

TEST(PytorchSnapshot, WritesASegmentForEachDriverAllocation) {
  ExportFixture fixture(fill_devices);
  const Snapshot snapshot = snapshot_of(fixture);
  EXPECT_EQ(
      entries_of(snapshot, 0),
      (std::vector<std::string>{"segment_alloc d000 4000", "alloc d000 4000", "segment_alloc e000 1000",
                                "alloc e000 1000", "free_requested d000 4000", "free_completed d000 4000",
                                "segment_free d000 4000", fmt::format("oom {:x} 9000", 10'000 - 1000)}));
  EXPECT_EQ(entries_of(snapshot, 1), (std::vector<std::string>{"segment_alloc d000 700", "alloc d000 700"}));
  ASSERT_EQ(snapshot.segments.size(), 2U);
  EXPECT_EQ(snapshot.segments[0].size, 1000);
  EXPECT_EQ(snapshot.segments[1].size, 700);
}

TEST(PytorchSnapshot, AgreesWithTheAnalysisOnAnyRecording) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    ExportFixture fixture([&](auto& builder) { fill_at_random(builder, seed, 2000); });
    const auto analysis = attribution::analyze_recording(fixture.recording(), {});
    if (!analysis.full) continue;
    const Snapshot snapshot = snapshot_of(fixture);
    const std::vector<std::int64_t> devices = snapshot.devices();
    ASSERT_FALSE(devices.empty());
    const auto* trace = snapshot.trace_of(devices.back());  // the heap
    ASSERT_NE(trace, nullptr);
    std::int64_t live = 0, peak = 0, allocations = 0;
    for (std::size_t i = 0; i < trace->entry_count; ++i) {
      const auto& entry = snapshot.entry(*trace, i);
      allocations += entry.action == Action::alloc;
      if (entry.action == Action::alloc) live += entry.size;
      if (entry.action == Action::free_completed) live -= entry.size;
      peak = std::max(peak, live);
    }
    EXPECT_EQ(peak, analysis.peak_bytes.value) << seed;
    EXPECT_EQ(live, analysis.leaked_bytes.value) << seed;
    EXPECT_EQ(allocations, analysis.allocations) << seed;
  }
}

// The report must not apply the rules of PyTorch's caching allocator, which rounds to 512 bytes.
TEST(PytorchSnapshot, ReportShowsTheFiguresOfTheRecording) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    ExportFixture fixture([&](auto& builder) { fill_at_random(builder, seed, 2000); });
    const auto analysis = attribution::analyze_recording(fixture.recording(), {});
    if (!analysis.full) continue;
    const Snapshot snapshot = snapshot_of(fixture);
    EXPECT_TRUE(snapshot.settings.has_exact_sizes);
    const auto devices = snapshot::analyze_snapshot(snapshot, {});
    ASSERT_FALSE(devices.empty());
    EXPECT_EQ(devices.back().peak_allocated_bytes, analysis.peak_bytes.value) << seed;
  }
}

TEST(PytorchSnapshot, RejectsRecordingsOfSamplesOnly) {
  ExportFixture fixture([](auto& builder) { builder.sample(0, 20, 0x1000, 100, {2}); }, {.full = false});
  const Status refused = fixture.try_write("pytorch-snapshot", {}, fixture.path("a.pickle"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().sentence(), testing::HasSubstr("record with headroom trace --full"));
}

TEST(PytorchSnapshot, BlocksCloserThanGlibcAllowsDoNotOverlap) {
  ExportFixture fixture([](auto& builder) {
    builder.allocate(0, 10, 0x1000, 30, {2});  // 48 bytes by glibc's rules
    builder.allocate(0, 20, 0x1020, 30, {2});
    builder.allocate(0, 30, 0x900000, 8, {2});  // far away, so in another segment
  });
  const Snapshot snapshot = snapshot_of(fixture);
  ASSERT_EQ(snapshot.segments.size(), 2U);
  EXPECT_EQ(snapshot.blocks[0].size, 32);
  EXPECT_EQ(snapshot.blocks[0].requested, 30);
}

}  // namespace
}  // namespace headroom::exporters
