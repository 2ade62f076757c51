// The views of small recordings against their golden files. After an intended change:
//   HEADROOM_UPDATE_GOLDEN=1 build/release/tests/recording_report_test --gtest_filter='*Golden*'
// and read the difference with git before you commit it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "report/recording/recording_views.h"
#include "report/recording/recording_words.h"
#include "report/recording/stack_text.h"
#include "support/recording_builder.h"
#include "support/test_support.h"

namespace headroom::report {

namespace {

using test::RecordingBuilder;

constexpr std::uint64_t kBase = 0x400000, kMillisecond = 1'000'000;

void add_program(RecordingBuilder& builder) {
  builder.module("/opt/app/bin/detector", std::string(20, '\x11'), kBase, kBase + 0x100000, kBase);
  builder.thread(0, 4242, "main");
  builder.thread(1, 4243, "worker");
}

// Loads weights, then runs 12 times: each Run keeps 3 KB, and allocates and frees a workspace.
void leaking_model(RecordingBuilder& builder) {
  add_program(builder);
  const auto session = builder.scope("detector.onnx", 0, recording::ScopeSource::session);
  const auto load = builder.scope("load", session, recording::ScopeSource::load);
  const auto run = builder.scope("Run", session, recording::ScopeSource::run);
  const auto conv = builder.scope("conv1", run, recording::ScopeSource::node);
  const RecordingBuilder::Frames weights{kBase + 0x1011, kBase + 0x2021},
      workspace{kBase + 0x3031, kBase + 0x2055}, log{kBase + 0x4041, kBase + 0x2055};
  std::uint64_t time = kMillisecond;
  builder.enter_scope(0, time, load);
  builder.allocate(0, time += kMillisecond, 0x7f0000000010, 12 << 20, weights);
  builder.enter_scope(0, time += kMillisecond, 0);
  for (std::uint64_t i = 0; i < 12; ++i) {
    builder.enter_scope(0, time += kMillisecond, run);
    builder.enter_scope(0, time += kMillisecond, conv);
    builder.allocate(0, time += kMillisecond, 0x7f0001000010, 2 << 20, workspace);
    builder.allocate(0, time += kMillisecond, 0x500010 + 0x2000 * i, 3000, log);
    builder.release(0, time += kMillisecond, 0x7f0001000010);
    builder.enter_scope(0, time += kMillisecond, 0);
  }
  builder.map(1, time += kMillisecond, 0x7e0000000000, 64 << 20, {kBase + 0x5051});
}

// A ring recording in default mode after a kill.
void killed_sampled(RecordingBuilder& builder) {
  add_program(builder);
  builder.note("the program was killed");
  builder.allocate(0, kMillisecond, 0x10010, 1 << 20, {kBase + 0x1011});
  builder.sample(0, 2 * kMillisecond, 0x200010, 600, {kBase + 0x3031});
  builder.counters(0, 3 * kMillisecond, 0, 4000, 900'000, 3100);
  builder.gap(1, 4 * kMillisecond, 250);
  builder.release(1, 5 * kMillisecond, 0x999010);
}

// GPU memory alone: two devices, a limit with a refused request, and layers with times.
void gpu_only(RecordingBuilder& builder) {
  add_program(builder);
  recording::DeviceRecord record{};
  record.total_bytes = std::uint64_t{16} << 30;
  builder.device(0, record, "Test GPU");
  record.limit_bytes = std::uint64_t{1} << 30;
  record.flags = recording::kDeviceLimited | recording::kDeviceShared | recording::kDeviceLimitHard;
  record.granule_bytes = 2 << 20;
  builder.device(1, record, "Test GPU");
  const auto load = builder.scope("load"), run = builder.scope("Run");
  std::uint64_t time = kMillisecond;
  builder.enter_scope(0, time, load);
  builder.device_allocate(0, time += kMillisecond, 0, DeviceMemoryKind::device, 0x1000, 500 << 20,
                          {kBase + 0x1011, kBase + 0x2021});
  builder.device_allocate(0, time, 1, DeviceMemoryKind::physical, 0x2000, 900 << 20, {kBase + 0x2021});
  builder.device_allocate(0, time, 0, DeviceMemoryKind::pinned_host, 0x3000, 64 << 20, {kBase + 0x2021});
  for (int i = 0; i < 3; ++i) {
    builder.enter_scope(0, time += kMillisecond, run);
    builder.device_allocate(0, time += kMillisecond, 0, DeviceMemoryKind::pool, 0x4000, 100 << 20,
                            {kBase + 0x3031, kBase + 0x2055});
    builder.device_release(0, time += kMillisecond, 0, DeviceMemoryKind::pool, 0x4000);
    builder.enter_scope(0, time += kMillisecond, 0);
  }
  builder.device_figure(0, time, 0, DeviceMemoryKind::pool_reserved, 128 << 20);
  builder.device_refused(0, time += kMillisecond, 1, DeviceMemoryKind::device, 200 << 20, 950 << 20, 1 << 30,
                         {kBase + 0x2055});
  // The process holds 905 MiB including its pools; the largest other process belongs to its tree.
  builder.device_holder(0, time, 1, 0, 905 << 20);
  builder.device_holder(0, time, 1, 4300, 30 << 20);
  builder.device_holder(0, time, 1, 911, 10 << 20);
  builder.process_name(4300, "sh");
  builder.process_name(911, "segmenter");
}

void nothing(RecordingBuilder&) {}

struct Sample {
  std::string name;
  test::RecordingOptions options;
  void (*fill)(RecordingBuilder&);
  bool tree = false;
};

std::vector<Sample> samples() {
  test::RecordingOptions full, killed, empty, gpus;
  full.command = {"/opt/app/bin/detector", "--images", "a folder"};
  killed.command = {"/opt/app/bin/detector"};
  killed.full = killed.closed = false;
  empty.command = {"/bin/true"};
  gpus.command = {"/opt/app/bin/detector"};
  gpus.host = gpus.full = false;
  return {{"leaking_model", full, leaking_model, true},
          {"killed_sampled", killed, killed_sampled},
          {"nothing", empty, nothing},
          {"gpu_only", gpus, gpu_only, true}};
}

// Names as from a symbolizer: one address has an inlined function.
std::vector<std::string> names_of(std::uint64_t return_address) {
  static const std::map<std::uint64_t, std::vector<std::string>> kNames{
      {0x1011, {"std::vector<float>::resize(unsigned long)", "Weights::read(std::string const&)"}},
      {0x2021, {"Session::load()"}},
      {0x2055, {"Session::run(Tensor const&) const", "main"}},
      {0x3031, {"(anonymous namespace)::workspace(long)"}},
      {0x4041, {"Log::append(char const*)"}},
      {0x5051, {"detector+0x5050"}}};
  return kNames.at(return_address - kBase);
}

class RecordingViewsGolden : public testing::TestWithParam<Sample> {
 protected:
  static void compare(const std::string& file, const std::string& view) {
    test::compare_with_golden("recording/" + GetParam().name + "/" + file, view);
  }
};

TEST_P(RecordingViewsGolden, EachView) {
  const test::TemporaryFolder folder;
  RecordingBuilder builder(folder / "a.hrec", GetParam().options);
  GetParam().fill(builder);
  auto recording = recording::Recording::open(builder.finish());
  ASSERT_TRUE(recording.has_value());
  const auto analysis = attribution::analyze_recording(*recording, {.timeline_points = 20});
  RecordingReport report{"a.hrec", recording->info(), recording->stacks(), analysis, names_of, {}, false};
  if (GetParam().tree) {
    report.others = {{.file = "a.hrec.d/4300-0.hrec",
                      .command = "/bin/sh -c true",
                      .pid = 4300,
                      .allocations = 5,
                      .deallocations = 4,
                      .total_allocated_bytes = 5000,
                      .peak_bytes = 4000,
                      .leaked_bytes = 16,
                      .events = 9,
                      .complete = true},
                     {.file = "a.hrec.d/4301-0.hrec",
                      .problem = "cannot read a.hrec.d/4301-0.hrec: its header is damaged"}};
    report.add_others = true;
    if (!GetParam().options.host) {
      report.others[0].host_recorded = false;
      report.others[0].device_peak_bytes = 3 << 20;
    }
  }
  compare("terminal.txt", recording_to_terminal(report, false, 80));
  compare("report.json", to_text(recording_to_json(report)));
  const auto end = attribution::live_rows_at(*recording, analysis.duration);
  compare("moment.txt", moment_to_terminal(report, end, false, 80));
  const auto peak = attribution::live_rows_at(*recording, analysis.peak_time, SampleHalf::b);
  compare("moment.json", to_text(moment_to_json(report, peak)));
}

INSTANTIATE_TEST_SUITE_P(Samples, RecordingViewsGolden, testing::ValuesIn(samples()),
                         [](const auto& sample) { return sample.param.name; });

TEST(ShortFunction, RemovesParametersAndTemplateArguments) {
  for (const auto& [function, name] : std::initializer_list<std::pair<const char*, const char*>>{
           {"main", "main"},
           {"libengine.so (function unknown)", "libengine.so (function unknown)"},
           {"Session::run(std::span<Tensor const, 4ul>) const", "Session::run"},
           {"void copy<float, (Layout)2>(float*, int (*)(int))", "copy"},
           {"(anonymous namespace)::load(char const*)", "load"},
           {"Functor::operator()(int) const", "Functor::operator()"},
           {"operator<<(std::ostream&, int)", "operator<<"},
           {"std::vector<std::pair<int, int>>::push_back(int&&)", "std::vector::push_back"},
           {"libfoo.so+0x1a2b", "libfoo.so+0x1a2b"},
           {"make_state(unsigned long) [clone .constprop.0]", "make_state"},
           {"void copy<float>(float*) const [clone .isra.0] [clone .cold]", "copy"},
           {"make_state.constprop.0", "make_state"},
           {"", ""}})
    EXPECT_EQ(short_function(function), name);
}

TEST(OneLineStack, StartsAfterAllocatorFunctionsAndEndsAtMain) {
  EXPECT_EQ(one_line_stack({"operator new(unsigned long)", "PyObject_Malloc", "descend(int)", "descend(int)",
                            "main", "__libc_start_call_main"},
                           80),
            "descend ← main");
  EXPECT_EQ(one_line_stack(std::vector<std::string>{}, 80), "(no stack was taken)");
  EXPECT_EQ(one_line_stack({"xmalloc", "xcalloc"}, 80), "xmalloc ← xcalloc") << "there is nothing else";
}

using attribution::LeakVerdict;
using monitoring::Growth;
using testing::HasSubstr;

TEST(LeakWords, SayTheVerdictAndWhatIsKnownOfTheGrowth) {
  const std::pair<LeakVerdict, const char*> cases[] = {
      {{.growth = Growth::leak, .bytes_per_cycle = 3072},
       "Leak: net/run leaves 3.0 KiB more memory with each of 1,200 cycles."},
      {{.growth = Growth::leak, .bytes_per_cycle = 0.06},
       "Leak: net/run leaves under 1 B more memory with each of 1,200 cycles."},
      {{.growth = Growth::leak, .bytes_per_cycle = 400, .last_step = 640},
       "Leak: net/run leaves 400 B more memory with each of 1,200 cycles on average. It grows in "
       "steps, like a container that is never emptied (last step at cycle 640)."},
      {{.growth = Growth::leak, .bytes_per_cycle = 3072, .released_bytes = 512 << 10},
       "Leak: net/run leaves 3.0 KiB more memory with each of 1,200 cycles. After the last cycle, "
       "512.0 KiB of the growth was released."},
      {{.growth = Growth::leak, .bytes_per_cycle = 3072, .is_cut_off = true},
       "Leak: net/run leaves 3.0 KiB more memory with each of 1,200 cycles. The recording ends "
       "before the program did, so later releases are unknown."},
      {{.growth = Growth::leak, .same_places = true},
       "The same places grow over the 1,200 cycles of net/run."},
      {{.growth = Growth::grew_then_stayed, .last_step = 4},
       "No leak: memory grew until cycle 4 of net/run and then stayed the same, over 1,200 cycles."},
      {{.growth = Growth::grew_then_stayed},
       "No leak: after 1,200 cycles of net/run, more memory is live than after the first ones, but "
       "it no longer grows."},
      {{.growth = Growth::grew_late, .last_step = 1150, .late_bytes = 3 << 10},
       "Unclear: net/run holds 3.0 KiB more than after its warm-up, and last grew at cycle 1,150 of "
       "1,200. Record more cycles to see whether it stays."},
      {{.growth = Growth::grew_then_released,
        .bytes_per_cycle = 3072,
        .released_at = Nanoseconds{1'204'000'000}},
       "Memory grew and was released later: net/run left 3.0 KiB more with each of 1,200 cycles, "
       "and all of it was released by 1.204 s."},
      {{.growth = Growth::unknown},
       "No layer was entered and left 6 times, so there is no verdict. Memory that is live at exit "
       "is not always a leak: caches stay on purpose."}};
  for (auto [leaks, words] : cases) {
    leaks.cycle = "net/run";
    leaks.cycles = 1200;
    EXPECT_EQ(words_for_leaks(leaks), words);
  }
}

TEST(LeakWords, ReportsLayersThatWereNotMonitored) {
  LeakVerdict none;
  none.cycles_left_out = 1;
  EXPECT_THAT(words_for_leaks(none), HasSubstr("No repeated layer was monitored"));
  none.cycles_left_out = 2;
  EXPECT_EQ(words_for_cycles_left_out(none),
            "2 more repeated layers were not monitored: leaks there are unknown.");
}

}  // namespace

}  // namespace headroom::report
