// Small recordings whose figures were calculated by hand.
#include <sched.h>

#include <cmath>

#include "attribution/block_changes.h"
#include "attribution/live_rows.h"
#include "unit/attribution/analyze.h"

namespace headroom::attribution {
namespace {

const OwnRecording::Frames kLoad{0x401010, 0x400500}, kRun{0x402020, 0x400500};

// analysis_property_test.cpp compares the sums of stacks, threads and layers.
TEST(RecordingAnalysisTest, ComputesTotalsPeakAndLeaks) {
  OwnRecording recording;
  recording.allocate(0, 10, 0x1000, 100, kLoad);
  recording.allocate(0, 20, 0x2000, 50, kRun);
  recording.release(0, 30, 0x2000);              // the thread's next event after the allocation: temporary
  recording.allocate(1, 40, 0x3000, 300, kRun);  // 400 live: the peak
  recording.release(0, 50, 0x1000);
  recording.allocate(1, 60, 0x1000, 40, kLoad);
  recording.release(1, 70, 0x9000);  // allocated before the recording started
  const RecordingAnalysis analysis = analyze(recording);

  EXPECT_TRUE(analysis.full);
  EXPECT_FALSE(analysis.complete);
  EXPECT_EQ(analysis.events, 7);
  EXPECT_EQ(analysis.allocations, 4);
  EXPECT_EQ(analysis.deallocations, 3);
  EXPECT_EQ(analysis.total_allocated_bytes, 490);
  EXPECT_EQ(analysis.unknown_releases, 1);
  EXPECT_EQ(analysis.missed_releases, 0);
  EXPECT_EQ(analysis.peak_bytes.value, 400);
  EXPECT_FALSE(analysis.peak_bytes.standard_error.has_value()) << "everything was recorded: exact";
  EXPECT_EQ(analysis.peak_time, Nanoseconds{40});
  EXPECT_EQ(analysis.peak_blocks.value, 2);
  EXPECT_EQ(analysis.leaked_bytes.value, 340);
  EXPECT_EQ(analysis.leaked_blocks.value, 2);
  EXPECT_EQ(analysis.temporary, 1);

  ASSERT_EQ(analysis.stacks.size(), 3U);  // none, load, run
  const StackFigures& load = analysis.stacks[1];
  EXPECT_EQ(load.live.peak_blocks, 1);
  EXPECT_EQ(load.block_bytes, std::nullopt) << "100 and 40";
  const StackFigures& run = analysis.stacks[2];
  EXPECT_EQ(run.most_bytes, 300);
  EXPECT_EQ(run.temporary, 1);

  ASSERT_EQ(analysis.threads.size(), 2U);
  EXPECT_EQ(analysis.threads[0].allocations, 2);
  EXPECT_EQ(analysis.threads[0].releases, 2);
  EXPECT_EQ(analysis.threads[1].allocated_bytes, 340);

  // 32–63: 50 and 40; 64–127: 100; 256–511: 300.
  ASSERT_EQ(analysis.size_classes.size(), 3U);
  const SizeClassFigures& small = analysis.size_classes[0];
  EXPECT_EQ(std::pair(small.smallest, small.largest), std::pair(32UL, 63UL));
  EXPECT_EQ(small.allocations, 2);
  EXPECT_EQ(small.live.end_bytes, 40);
  EXPECT_EQ(analysis.size_classes[2].live.peak_bytes, 300);

  // 50 bytes lived 10 ns (8 to 15), 100 bytes 40 ns (32 to 63).
  ASSERT_EQ(analysis.lifetimes.size(), 2U);
  EXPECT_EQ(analysis.lifetimes[0].below, Nanoseconds{16});
  EXPECT_EQ(analysis.lifetimes[0].bytes, 50);
  EXPECT_EQ(analysis.lifetimes[1].below, Nanoseconds{64});
  EXPECT_EQ(analysis.lifetimes[1].blocks, 1);
}

TEST(RecordingAnalysisTest, RecoversFromMissedRelease) {
  OwnRecording recording;
  recording.allocate(0, 10, 0x1000, 100);
  recording.gap(0, 20, 7);
  recording.allocate(0, 30, 0x1000, 30);
  const RecordingAnalysis analysis = analyze(recording);
  EXPECT_EQ(analysis.missed_releases, 1);
  EXPECT_EQ(analysis.gaps, 1);
  EXPECT_EQ(analysis.dropped_events, 7);
  EXPECT_FALSE(analysis.complete);
  EXPECT_EQ(analysis.leaked_bytes.value, 30);
  EXPECT_EQ(analysis.peak_bytes.value, 100);
  EXPECT_EQ(analysis.deallocations, 0);
}

// In a process that did not inherit blocks and lost no events.
TEST(RecordingAnalysisTest, ReportsReleasesOfUnknownBlocks) {
  test::RecordingOptions options;
  const auto problems = [&](bool with_gap) {
    OwnRecording recording(options);
    if (with_gap) recording.gap(0, 5, 3);
    if (options.full)
      recording.release(0, 10, 0x9000);
    else
      recording.counters(0, 10, 0, 5, 500, 7);
    const RecordingAnalysis analysis = analyze(recording);
    EXPECT_EQ(analysis.complete, analysis.problems.empty() && !with_gap);
    EXPECT_EQ(analysis.unseen_blocks, analysis.problems.empty() ? 0 : options.full ? 1 : 2);
    return analysis.problems.size();
  };
  for (const bool full : {true, false}) {
    options.full = full, options.forked = false;
    EXPECT_EQ(problems(false), 1U);
    EXPECT_EQ(problems(true), 0U);
    options.forked = true;
    EXPECT_EQ(problems(false), 0U);
  }
}

TEST(RecordingAnalysisTest, MappingsAreSeparateFromHeap) {
  OwnRecording recording;
  recording.map(0, 10, 0x10000, 0x3000, kLoad);
  recording.allocate(0, 20, 0x1000, 100);
  recording.unmap(0, 30, 0x11000, 0x1000);  // the middle page
  recording.map(0, 40, 0x20000, 5000);      // two pages
  const RecordingAnalysis analysis = analyze(recording);
  EXPECT_EQ(analysis.peak_bytes.value, 100);
  EXPECT_EQ(analysis.mapped.maps, 2);
  EXPECT_EQ(analysis.mapped.unmaps, 1);
  EXPECT_EQ(analysis.mapped.mapped_bytes, 0x3000 + 5000);
  EXPECT_EQ(analysis.mapped.peak_bytes, 0x4000);
  EXPECT_EQ(analysis.mapped.peak_time, Nanoseconds{40});
  EXPECT_EQ(analysis.mapped.bytes_at_heap_peak, 0x3000);
  EXPECT_EQ(analysis.mapped.end_bytes, 0x4000);
  EXPECT_EQ(analysis.allocations, 1);
}

TEST(RecordingAnalysisTest, MappingsKeepStackAndLayer) {
  OwnRecording recording;
  // Two scopes with the same path are one layer.
  const auto load = recording.scope("load"), load_again = recording.scope("load");
  recording.enter_scope(0, 5, load);
  recording.map(0, 10, 0x10000, 0x3000, kLoad);
  recording.enter_scope(0, 15, load_again);
  recording.map(0, 20, 0x20000, 0x2000, kRun);
  recording.enter_scope(0, 25, 0);
  recording.map(0, 30, 0x30000, 0x1000, kRun);
  recording.unmap(1, 40, 0x10000, 0x2000);  // by another thread, outside of any layer
  recording.map(1, 50, 0x40000, 0x1000);
  const RecordingAnalysis analysis = analyze(recording);
  EXPECT_EQ(analysis.mapped.peak_bytes, 0x6000);
  EXPECT_EQ(analysis.mapped.peak_time, Nanoseconds{30});
  EXPECT_EQ(analysis.mapped.stacks,
            (std::vector<MappingShare>{{1, 0x3000, 0x1000}, {2, 0x3000, 0x3000}, {0, 0, 0x1000}}));
  ASSERT_EQ(analysis.layers[1].path, "load");
  EXPECT_EQ(analysis.mapped.layers, (std::vector<MappingShare>{{1, 0x5000, 0x3000}, {0, 0x1000, 0x2000}}));
  EXPECT_EQ(analysis.layers[1].live.peak_bytes, 0) << "layers are of the heap";

  recording::Recording opened = open_built(recording);
  const MappedRows both = live_rows_at(opened, {25}).mapped, later = live_rows_at(opened, {40}).mapped;
  EXPECT_EQ(both.bytes, 0x5000);
  EXPECT_EQ(both.by_stack, (std::vector<MappingShare>{{1, 0, 0x3000}, {2, 0, 0x2000}}));
  EXPECT_EQ(both.by_layer, (std::vector<MappingShare>{{1, 0, 0x5000}}));
  EXPECT_EQ(later.by_stack, (std::vector<MappingShare>{{2, 0, 0x3000}, {1, 0, 0x1000}}));
  EXPECT_EQ(live_rows_at(opened, {5}).mapped.bytes, 0);
}

TEST(RecordingAnalysisTest, CountersAreExactAndSamplesAreEstimates) {
  // A byte is sampled with probability 1/1000, so a block of 1000 bytes with 1 − 1/e: it represents 1.582
  // blocks. sampled_peak_test.cpp tests the peak.
  OwnRecording recording({.full = false, .sample_period_bytes = 1000});
  const auto layer = recording.scope("load");
  recording.allocate(0, 10, 0x10000, 8000, kLoad);
  recording.sample(0, 20, 0x20000, 1000, kRun);
  recording.sample(0, 30, 0x30000, 1000, kRun);
  recording.counters(0, 40, layer, 90, 7000, 60);
  recording.release(0, 50, 0x20000);
  const RecordingAnalysis analysis = analyze(recording);
  EXPECT_FALSE(analysis.full);
  EXPECT_EQ(analysis.allocations, 93);
  EXPECT_EQ(analysis.sampled_allocations, 2);
  EXPECT_EQ(analysis.counted_allocations, 90);
  EXPECT_EQ(analysis.deallocations, 61);
  EXPECT_EQ(analysis.total_allocated_bytes, 8000 + 2000 + 7000);
  EXPECT_EQ(analysis.events, 5) << "a record of counters is one";
  EXPECT_EQ(analysis.temporary, std::nullopt) << "unrecorded events may lie between";
  EXPECT_FALSE(analysis.fragmentation.has_value());

  const double weight = 1 / (1 - std::exp(-1.0));
  const double estimated = std::round(1000 * static_cast<double>(static_cast<float>(weight)));
  // √(Σ (1 − p)·(1000/p)²) of the live samples with p = 0.632, and one period.
  EXPECT_NEAR(*analysis.leaked_bytes.standard_error, std::hypot(std::sqrt(1 - 1 / weight) * estimated, 1000),
              0.01);
  EXPECT_EQ(analysis.leaked_blocks.value, 93 - 61);
  EXPECT_FALSE(analysis.leaked_blocks.standard_error.has_value()) << "all were counted";
  EXPECT_TRUE(analysis.stacks[2].sampled);
  EXPECT_FALSE(analysis.stacks[1].sampled);
  ASSERT_EQ(analysis.layers.size(), 2U);
  EXPECT_EQ(analysis.layers[1].allocations, 90);
  EXPECT_EQ(analysis.layers[1].allocated_bytes, 7000);
  EXPECT_EQ(analysis.layers[1].releases, 60);
}

// A forked child inherits its parent's blocks. Its releases of inherited small blocks are counted, too.
TEST(RecordingAnalysisTest, EstimatesLeaksIfInheritedBlocksAreReleased) {
  OwnRecording more_releases({.full = false, .sample_period_bytes = 1000});
  more_releases.sample(0, 10, 0x1000, 1000, kRun);
  more_releases.counters(0, 20, 0, 3000, 90'000, 5000);
  const RecordingAnalysis child = analyze(more_releases);
  EXPECT_EQ(child.leaked_blocks.value, 2) << "one sample of 1000 bytes at 1000 stands for 1.58";
  ASSERT_TRUE(child.leaked_blocks.standard_error.has_value());

  OwnRecording unknown({.full = false, .sample_period_bytes = 1000});
  unknown.counters(0, 20, 0, 3000, 90'000, 100);
  unknown.release(0, 30, 0x8000);  // inherited; recorded because it is large
  EXPECT_TRUE(analyze(unknown).leaked_blocks.standard_error.has_value());
}

TEST(RecordingAnalysisTest, ReportsUnrecordedLargeBlocks) {
  OwnRecording recording({.full = false});
  recording.note("a sentence for the reader");
  recording.allocate(0, 10, 0x1000, 8000);
  EXPECT_TRUE(analyze(recording).complete);
  OwnRecording full_set({.full = false});
  full_set.note(recording::kNoteUnrecordedLarge);
  full_set.allocate(0, 10, 0x1000, 8000);
  const RecordingAnalysis analysis = analyze(full_set);
  EXPECT_FALSE(analysis.complete);
  EXPECT_THAT(analysis.problems, testing::ElementsAre(testing::HasSubstr("more than a million large")));
}

TEST(RecordingAnalysisTest, SuggestsReuseOfRepeatedAllocations) {
  OwnRecording recording;
  for (int i = 0; i < 20; ++i) {
    recording.allocate(0x1000, 640, kRun);
    recording.allocate(0x2000, 640, kRun);
    recording.release(0x1000);
    recording.release(0x2000);
    recording.allocate(0x10000 + 0x1000 * static_cast<std::uint64_t>(i), 9999, kLoad);
  }
  const RecordingAnalysis analysis = analyze(recording);
  ASSERT_EQ(analysis.reuse.size(), 1U) << "kLoad keeps what it allocates";
  const ReuseCandidate& candidate = analysis.reuse[0];
  EXPECT_EQ(candidate.stack, analysis.stacks[1].stack);
  EXPECT_EQ(candidate.calls_saved, 38);
  EXPECT_EQ(candidate.most_blocks, 2);
  EXPECT_EQ(candidate.pool_bytes, 1280);
  EXPECT_EQ(candidate.bytes_not_churned, 38 * 640);
  EXPECT_EQ(analysis.stacks[1].block_bytes, 640);
}

// One block is live at a time. One of them is sampled and represents 524 KB.
TEST(RecordingAnalysisTest, SuggestsNoPoolForSamples) {
  OwnRecording recording({.full = false});
  for (int i = 0; i < 20; ++i) {
    recording.sample(0x1000, 400, kRun);
    recording.release(0x1000);
    recording.allocate(0x10000, 8000, kLoad);
    recording.release(0x10000);
  }
  recording.counters(0, recording.now(), 0, 100'000, 40'000'000,
                     100'000);  // as many as the samples represent
  const RecordingAnalysis analysis = analyze(recording);
  ASSERT_EQ(analysis.reuse.size(), 2U);
  EXPECT_EQ(analysis.reuse[0].stack, analysis.stacks[1].stack);
  EXPECT_EQ(analysis.reuse[0].pool_bytes, std::nullopt);
  EXPECT_EQ(analysis.reuse[0].most_blocks, std::nullopt);
  EXPECT_EQ(analysis.reuse[1].pool_bytes, 8000) << "large blocks are all recorded";
  EXPECT_EQ(analysis.reuse[1].most_blocks, 1);
}

// When the tracer ends a runtime's profile, the runtime releases the profile's memory. A profile in small
// blocks cannot be measured by samples, so it is reported for full recordings only.
TEST(RecordingAnalysisTest, ReportsRuntimeProfilesInFullRecordingsOnly) {
  for (const bool full : {true, false}) {
    OwnRecording recording({.full = full});
    const auto run = recording.scope("run"), own = recording.scope(recording::kTracerScope, run);
    recording.enter_scope(0, 10, run);
    recording.allocate(0, 20, 0x10000, 8000, kRun);
    recording.enter_scope(0, 30, own);
    recording.release(0, 40, 0x10000);
    const RecordingAnalysis analysis = analyze(recording);
    ASSERT_GE(analysis.layers.size(), 2U);
    EXPECT_EQ(analysis.layers[1].path, "run");
    EXPECT_EQ(analysis.layers[1].self.peak_bytes, 8000);
    EXPECT_EQ(analysis.layers[1].tracing_peak_bytes, full ? 8000 : 0);
  }
}

TEST(RecordingAnalysisTest, ListsLiveMemoryAtAMoment) {
  OwnRecording recording;
  const auto layer = recording.scope("conv");
  recording.allocate(0, 10, 0x1000, 100, kLoad);
  recording.enter_scope(1, 15, layer);
  recording.allocate(1, 20, 0x2000, 50, kRun);
  recording.allocate(1, 22, 0x3000, 60, kRun);
  recording.release(0, 30, 0x1000);
  recording::Recording opened = open_built(recording);
  const LiveRows rows = live_rows_at(opened, {25});
  EXPECT_EQ(rows.bytes.value, 210);
  EXPECT_EQ(rows.blocks.value, 3);
  EXPECT_EQ(rows.bytes.standard_error, std::nullopt);
  EXPECT_EQ(rows.by_layer[0].bytes, 100);
  EXPECT_EQ(rows.by_layer[1].bytes, 110);
  EXPECT_EQ(rows.by_layer[1].blocks, 2);
  EXPECT_EQ(rows.by_stack[2].bytes, 110);
  EXPECT_EQ(rows.by_thread[0].bytes, 100);
  EXPECT_EQ(rows.by_thread[1].bytes, 110);
  EXPECT_EQ(rows.by_class[6].bytes, 110) << "32 to 63";
  EXPECT_EQ(rows.by_class[7].bytes, 100) << "64 to 127";
  EXPECT_EQ(live_rows_at(opened, {30}).bytes.value, 110) << "with the events of that very moment";
  EXPECT_EQ(live_rows_at(opened, {5}).bytes.value, 0);

  const auto moments = live_at(opened, std::vector<Nanoseconds>{{0}, {10}, {25}, {30}, {99}});
  std::vector<std::int64_t> bytes;
  for (const LiveMoment& moment : moments) bytes.push_back(moment.bytes);
  EXPECT_EQ(bytes, (std::vector<std::int64_t>{0, 100, 210, 110, 110}));
  EXPECT_EQ(moments[2].blocks, 3);
  EXPECT_EQ(moments[2].bytes_by_stack, (std::vector<std::int64_t>{0, 100, 110}));
  EXPECT_EQ(moments[2].bytes_by_layer, (std::vector<std::int64_t>{100, 110}));
  EXPECT_EQ(moments[2].bytes_by_thread, (std::vector<std::int64_t>{100, 110}));
  EXPECT_EQ(moments[2].bytes_by_class, (std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 110, 100}));
}

// The rows of the peak and of the end equal those of the report.
TEST(RecordingAnalysisTest, RowsOfSamplesAgreeWithTheReport) {
  for (const std::uint64_t counted : {1'000u, 100'000'000u}) {  // with the bound and without
    OwnRecording recording({.full = false, .sample_period_bytes = 64 << 10, .started_realtime_ns = counted});
    recording.allocate(0, 10, 0x10000, 8000, kLoad);
    for (std::uint64_t i = 0; i < 40; ++i) recording.sample(0, 20 + i, 0x20000 + 0x100 * i, 100 + i, kRun);
    recording.release(0, 100, 0x20000);
    recording.counters(0, 200, 0, counted / 100, counted, 0);
    recording::Recording opened = open_built(recording);
    const RecordingAnalysis analysis = analyze_recording(opened, {});
    const LiveRows peak = live_rows_at(opened, analysis.peak_time, SampleHalf::b);
    const LiveRows end = live_rows_at(opened, analysis.duration);
    EXPECT_EQ(peak.bytes.value, analysis.peak_bytes.value);
    EXPECT_EQ(peak.blocks.value, analysis.peak_blocks.value);
    EXPECT_EQ(end.bytes.value, analysis.leaked_bytes.value);
    EXPECT_NEAR(*end.bytes.standard_error, *analysis.leaked_bytes.standard_error, 1);
    EXPECT_EQ(end.bytes.at_most, analysis.leaked_bytes.at_most);
    EXPECT_EQ(end.bytes.at_most.has_value(), counted == 1'000);
    EXPECT_EQ(peak.by_stack[2].bytes, analysis.stacks[2].live.peak_bytes);
    EXPECT_EQ(end.by_stack[2].bytes, analysis.stacks[2].live.end_bytes);
    EXPECT_NEAR(*end.by_stack[2].standard_error(), *analysis.stacks[2].live.end_standard_error(), 1);
    EXPECT_NEAR(*end.by_thread[0].standard_error(), *analysis.threads[0].live.end_standard_error(), 1);
    ASSERT_EQ(analysis.size_classes.size(), 3U) << "100 to 127, 128 to 139, 8000";
    EXPECT_EQ(end.by_class[7].bytes, analysis.size_classes[0].live.end_bytes);
  }
}

// As under taskset. Two threads on one core would only take turns.
TEST(ChangeQueueTest, UsesNoThreadIfTheProcessMayUseOneCore) {
  cpu_set_t allowed, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &allowed)) CPU_SET(core, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  const bool uses_thread = ChangeQueue([](const ChangeBatch&) {}, 0).uses_thread();
  ASSERT_EQ(::sched_setaffinity(0, sizeof allowed, &allowed), 0);
  EXPECT_FALSE(uses_thread);
}

}  // namespace
}  // namespace headroom::attribution
