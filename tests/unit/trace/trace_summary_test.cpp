// The summary at the end of a trace.
#include "trace/run_trace.h"

#include <signal.h>

#include <algorithm>

#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::trace {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TraceOutcome outcome_of(recording::Recording& recording) {
  TraceOutcome outcome;
  outcome.command = {"./app", "--flag"};
  outcome.end.status.exit_code = 0;
  outcome.end.duration = {1'500'000'000};
  outcome.recording = "/out/app.hrec";
  const auto analysis = attribution::analyze_recording(recording, {});
  outcome.info = recording.info();
  outcome.events = analysis.events;
  outcome.figures = memory_figures(recording.info(), analysis);
  return outcome;
}

class Summary : public testing::Test {
 protected:
  TraceOutcome of_two_layers() {
    test::RecordingBuilder builder(folder_ / "a.hrec");
    const auto small = builder.scope("small"), large = builder.scope("large");
    builder.enter_scope(0, 1, small);
    builder.allocate(0, 10, 0x1000, 1 << 20);
    builder.enter_scope(0, 20, large);
    builder.allocate(0, 30, 0x200000, 3 << 20);
    builder.release(0, 40, 0x200000);
    auto recording = recording::Recording::open(builder.finish());
    return outcome_of(*recording);
  }
  test::TemporaryFolder folder_;
};

TEST_F(Summary, PrintsFiguresAndTheNextCommand) {
  const std::string text = trace_summary(of_two_layers());
  EXPECT_THAT(text,
              AllOf(HasSubstr("./app ended with exit code 0 after 1.500 s"), HasSubstr("4.0 MiB at 30 ns"),
                    HasSubstr("large 3.0 MiB, small 1.0 MiB"), HasSubstr("2, 4.0 MiB in total; 1 released"),
                    HasSubstr("1.0 MiB in 1 allocation"), HasSubstr("/out/app.hrec")));
  EXPECT_TRUE(text.ends_with("next: headroom report /out/app.hrec\n")) << text;
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 12);
  EXPECT_THAT(text, Not(HasSubstr("dropped")));
}

TEST_F(Summary, NamesAWorkerOfBench) {
  TraceOutcome outcome = of_two_layers();
  outcome.of_descendant = outcome.by_memory = outcome.of_worker = true;
  EXPECT_THAT(trace_summary(outcome), HasSubstr(" (worker of headroom bench with the largest peak)\n"));
}

TEST_F(Summary, OmitsHostMemoryForGpuOnlyRecordings) {
  test::RecordingOptions options;
  options.host = options.full = false;
  test::RecordingBuilder builder(folder_ / "a.hrec", options);
  builder.device(0, {}, "Test GPU");
  builder.device_allocate(0, 10, 0, DeviceMemoryKind::device, 0x1000, 3 << 20);
  builder.device_refused(0, 20, 0, DeviceMemoryKind::device, 1, 2, 3);
  builder.device_release(0, 30, 0, DeviceMemoryKind::device, 0x1000);
  auto recording = std::move(*recording::Recording::open(builder.finish()));
  const std::string text = trace_summary(outcome_of(recording));
  EXPECT_THAT(text, AllOf(HasSubstr("  recorded     GPU memory only (--only gpu)\n"),
                          HasSubstr("  GPU 0        Test GPU: peak 3.0 MiB allocated at 10 ns, 0 B at the "
                                    "end; 1 request refused\n")));
  for (const char* word : {"peak live", "allocations", "still live", "mapped"})
    EXPECT_THAT(text, Not(HasSubstr(word)));
  test::RecordingBuilder nothing(folder_ / "b.hrec", options);
  auto without = std::move(*recording::Recording::open(nothing.finish()));
  EXPECT_THAT(trace_summary(outcome_of(without)), HasSubstr("no GPU memory was requested"));
}

// Like `headroom report`: memory that a runtime released because of the tracer existed only for tracing.
TEST_F(Summary, ExcludesTracingOverheadFromLayers) {
  test::RecordingBuilder builder(folder_ / "a.hrec");
  const auto run = builder.scope("run"), other = builder.scope("other");
  builder.enter_scope(0, 1, run);
  builder.allocate(0, 10, 0x200000, 1 << 20);
  builder.allocate(0, 20, 0x1000000, 3 << 20);
  builder.enter_scope(0, 30, other);
  builder.allocate(0, 40, 0x2000000, 2 << 20);
  builder.enter_scope(0, 50, builder.scope(recording::kTracerScope));
  builder.release(0, 60, 0x1000000);
  auto recording = std::move(*recording::Recording::open(builder.finish()));
  EXPECT_THAT(trace_summary(outcome_of(recording)), HasSubstr("other 2.0 MiB, run 1.0 MiB"));
}

TEST_F(Summary, NamesTheSignalAndTheOutOfMemoryKiller) {
  TraceOutcome outcome = of_two_layers();
  outcome.end.status.signal = SIGKILL;
  EXPECT_THAT(trace_summary(outcome),
              AllOf(HasSubstr("SIGKILL (signal 9)"), Not(HasSubstr("out-of-memory"))));
  outcome.end.out_of_memory = true;
  EXPECT_THAT(trace_summary(outcome), HasSubstr("out-of-memory killer"));
  outcome.end.status.signal = SIGSYS;
  EXPECT_THAT(trace_summary(outcome), AllOf(HasSubstr("SIGSYS"), HasSubstr("seccomp filter forbids")));
}

TEST_F(Summary, StaysShortWithAllLines) {
  TraceOutcome outcome = of_two_layers();
  outcome.of_descendant = true;
  outcome.tree = "/out/app.hrec.d";
  outcome.programs = 1;
  EXPECT_THAT(trace_summary(outcome), Not(HasSubstr("app.hrec.d"))) << "it has only profiles";
  outcome.programs = 14;
  outcome.still_running = 2;
  outcome.problems = {"first", "second"};
  const std::string text = trace_summary(outcome);
  EXPECT_THAT(text, AllOf(HasSubstr("14"), HasSubstr("2 of its processes; their recordings keep growing"),
                          HasSubstr("first (and 1 more)"), HasSubstr("/usr/bin/program 4242")));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 12);
}

TEST_F(Summary, PrintsMemoryThatTheProgramMapped) {
  const auto summary_with = [&](std::uint64_t mapped_bytes, bool in_layer) {
    test::RecordingBuilder builder(folder_ / "a.hrec");
    const auto load = builder.scope("load model");
    builder.allocate(0, 5, 0x1000, 512 << 20);
    if (in_layer) builder.enter_scope(0, 8, load);
    builder.map(0, 10, 0x7f0000000000, mapped_bytes);
    auto recording = recording::Recording::open(builder.finish());
    return trace_summary(outcome_of(*recording));
  };
  EXPECT_THAT(
      summary_with(256 << 20, true),
      HasSubstr("up to 256.0 MiB by the program itself, outside the heap; 256.0 MiB in load model\n"));
  EXPECT_THAT(summary_with(256 << 20, false), HasSubstr("by the program itself, outside the heap\n"));
  EXPECT_THAT(summary_with(64 << 10, true), Not(HasSubstr("by the program itself"))) << "too little";
}

// Names come from the traced program and may contain anything.
TEST_F(Summary, EscapesAndShortensNames) {
  test::RecordingBuilder builder(folder_ / "a.hrec");
  builder.enter_scope(0, 1, builder.scope("\x1b[31mred\n" + std::string(500, 'x')));
  builder.allocate(0, 10, 0x1000, 1 << 20);
  auto recording = recording::Recording::open(builder.finish());
  ASSERT_TRUE(recording.has_value());
  TraceOutcome outcome = outcome_of(*recording);
  outcome.command = {"./\x1b]0;title\x07" + std::string(500, 'y')};
  outcome.recording = "/out/a b.hrec";
  const std::string text = trace_summary(outcome);
  EXPECT_THAT(text, AllOf(HasSubstr("[31mred x"), HasSubstr("next: headroom report '/out/a b.hrec'")));
  EXPECT_EQ(text.find_first_of("\x1b\x07"), std::string::npos);
  EXPECT_LE(text.size(), 800U) << text;
}

// Half of the samples estimate the peak, all of them the end.
TEST_F(Summary, ExplainsAnEstimatedPeakBelowTheEnd) {
  attribution::RecordingAnalysis analysis;
  analysis.peak_bytes = {1000, 100.0};
  analysis.leaked_bytes = {1100, 80.0};
  EXPECT_THAT(memory_figures({}, analysis), HasSubstr("above the peak by chance"));
  analysis.leaked_bytes.value = 1000;
  EXPECT_THAT(memory_figures({}, analysis), Not(HasSubstr("by chance")));
}

TEST_F(Summary, MarksFiguresOfAnOverwrittenRingAsLowerBounds) {
  test::RecordingBuilder builder(folder_ / "a.hrec",
                                 {.ring = true, .segment_bytes = 4096, .segments_limit = 4});
  for (std::uint64_t i = 0; i < 10'000; ++i) builder.allocate(0, 10 + i, 0x10010 + 0x1000 * i, 1000, {1});
  auto recording = recording::Recording::open(builder.finish());
  const std::string text = trace_summary(outcome_of(*recording));
  EXPECT_THAT(text, testing::ContainsRegex("peak live +at least .*; older blocks are not counted"));
  EXPECT_THAT(text, testing::ContainsRegex("still live +at least .*; older blocks are not counted"));
}

TEST_F(Summary, NamesTheLimitThatDroppedEvents) {
  const auto dropped = [&](const std::string& note, bool ring) {
    test::RecordingBuilder builder(folder_ / "a.hrec", {.ring = ring});
    if (!note.empty()) builder.note(note);
    builder.gap(0, 10, 7);
    auto recording = recording::Recording::open(builder.finish());
    return trace_summary(outcome_of(*recording));
  };
  EXPECT_THAT(dropped("", false), HasSubstr("7 events: record with a larger --max-size"));
  EXPECT_THAT(dropped("", true), HasSubstr("7 events: record with a larger --ring"));
  EXPECT_THAT(dropped("the recording stopped at the bound on its events (--max-events)", false),
              HasSubstr("7 events: record without --max-events"));
  EXPECT_THAT(dropped("events were dropped: the limit on file sizes (ulimit -f) was reached", false),
              HasSubstr("7 events: raise the limit on file sizes"));
  EXPECT_THAT(dropped("events were dropped: no disk space was left for the recording", false),
              HasSubstr("7 events: free some disk space"));
}

TEST_F(Summary, PrintsNoNextCommandWithoutARecording) {
  TraceOutcome outcome;
  outcome.command = {"./app"};
  EXPECT_THAT(trace_summary(outcome), Not(HasSubstr("next:")));
}

}  // namespace
}  // namespace headroom::trace
