// `headroom trace --gpu-mem-limit` from the command line, with the fake driver of tests/support.
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "base/json.h"
#include "cli/command.h"
#include "cli/diff_matchers.h"
#include "trace/device_account.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TraceGpu : public testing::Test {
 protected:
  // Runs in the test's folder, with the fake driver unless the environment is another.
  CommandOptions in_folder(std::vector<std::pair<std::string, std::string>> environment = {
                               {"LD_LIBRARY_PATH", test::built_path("tests/fake_cuda")}}) {
    CommandOptions options;
    options.folder = folder_.path();
    options.environment = std::move(environment);
    return options;
  }
  CommandResult trace(const Words& flags, const std::string& route, const std::string& limit) {
    return run_headroom(joined({{"trace"},
                                flags,
                                {"--out", recording().string(), "--", test::built_path("tests/traced_cuda"),
                                 "proc", route, limit, "7340032"}}),
                        in_folder());
  }
  // Runs `traced_cuda_lookup MODE` with contexts of 500 MB and a driver for which NVML reports usage. Returns
  // the report's device.
  Json device_of(const std::string& way, const std::string& libraries = with_nvml()) {
    CommandOptions options = in_folder({{"LD_LIBRARY_PATH", libraries},
                                        {"FAKE_CUDA_CONTEXT", "500000000"},
                                        {"FAKE_CUDA_GRANULE", "2097152"}});
    const CommandResult traced = run_headroom({"trace", "--force", "--out", recording().string(), "--",
                                               test::built_path("tests/traced_cuda_lookup"), way, "none"},
                                              options);
    EXPECT_EQ(traced.exit_code, 0) << way << traced.err;
    return first_device();
  }
  // The report's first device.
  Json first_device() {
    return json_of(run_headroom({"report", recording().string(), "--json"}))["devices"].at(0);
  }
  static std::string with_nvml() {
    return test::built_path("tests/fake_cuda") + ":" + test::built_path("tests/fake_cuda_nvml");
  }
  static ledger::Limits limits_of(std::uint64_t bytes) {
    ledger::Limits limits;
    std::ranges::fill(limits.bytes, bytes);
    return limits;
  }
  static std::string own_name() {
    std::string name = test::read_text("/proc/self/comm");
    while (name.ends_with('\n')) name.pop_back();
    return name;
  }
  static void expect_one_error(const CommandResult& result, const std::string& sentence) {
    EXPECT_THAT(refusal_of(result), HasSubstr(sentence));
  }
  fs::path recording() const { return folder_ / "a.hrec"; }
  TemporaryFolder folder_;
};

TEST_F(TraceGpu, ALimitHoldsForTheWholeCommand) {
  EXPECT_THAT(trace({"--gpu-mem-limit", "512MiB"}, "all", std::to_string(512 << 20)),
              Ends(0, HasSubstr("process  another held")));
}

// A child without a recording file records nothing, but the limit applies to it.
TEST_F(TraceGpu, ALimitHoldsWhereNothingIsRecorded) {
  for (const Words& without :
       {Words{"-u", "HEADROOM_TRACE_FILE"}, {"HEADROOM_TRACE_FILE="}, {"HEADROOM_TRACE_FILE=relative"}}) {
    CommandOptions options = in_folder(
        {{"LD_LIBRARY_PATH", test::built_path("tests/fake_cuda") + ":" + test::built_path("tests")}});
    const Words words =
        joined({{"trace", "--force", "--out", recording().string(), "--gpu-mem-limit", "50MiB", "--", "env"},
                without,
                {test::built_path("tests/traced_cuda_lookup"), "plain",
                 test::built_path("tests/libtraced_cuda_wrapper.so")}});
    EXPECT_EQ(run_headroom(words, options).out, "got 48, then 2\n") << without.back();
  }
}

TEST_F(TraceGpu, ReportNamesTheRefusalAndTheProcessesThatHoldMemory) {
  ASSERT_EQ(trace({"--gpu-mem-limit", "0=256MiB"}, "plain", std::to_string(256 << 20)).exit_code, 0);
  const CommandResult text = run_headroom({"report", recording().string()});
  EXPECT_THAT(text.out, HasSubstr("GPU 0, Fake GPU 0, 64.00 GiB, limited to 256.0 MiB"));
  EXPECT_THAT(text.out, HasSubstr("Refused at"));
  EXPECT_THAT(text.out, HasSubstr("held by"));
  const Json device = first_device();
  EXPECT_EQ(get_integer(device, "limit_bytes"), 256 << 20);
  EXPECT_EQ(get_integer(device, "peak_bytes"), 36 * 7340032);
  EXPECT_EQ(get_integer(device, "refused_count"), 2);
  EXPECT_EQ(get_integer(device, "at_end_bytes"), 0);
}

// --only gpu: everything about host memory is absent, rather than zero.
class TraceOnlyGpu : public TraceGpu {
 protected:
  static constexpr std::int64_t kPeak = 36 * 7340032;

  void SetUp() override {
    traced_ = trace({"--only", "gpu", "--gpu-mem-limit", "0=256MiB"}, "plain", std::to_string(256 << 20));
    ASSERT_EQ(traced_.exit_code, 0) << traced_.err;
  }
  Json report(const Words& flags) {
    const CommandResult result = run_headroom(joined({{"report", recording().string(), "--json"}, flags}));
    EXPECT_THAT(result, Ends(0));
    return test::json_of(result);
  }
  static Words words_of(const std::string& text) {
    std::istringstream in(text);
    return {std::istream_iterator<std::string>(in), {}};
  }
  static void expect_absent(const Json& object, const Words& keys) {
    for (const std::string& key : keys) EXPECT_FALSE(object.contains(key)) << key;
  }
  CommandResult traced_;
};

TEST_F(TraceOnlyGpu, SummaryListsTheDevices) {
  EXPECT_THAT(traced_.err, HasSubstr("  recorded     GPU memory only (--only gpu)\n"));
  EXPECT_THAT(traced_.err, HasSubstr("  GPU 0        Fake GPU 0: peak 252.0 MiB allocated at "));
  EXPECT_THAT(traced_.err, HasSubstr("; 2 requests refused\n"));
  EXPECT_THAT(traced_.err, HasSubstr("next: headroom doctor " + recording().string() + "  # which process"));
  for (const char* word : {"peak live", "allocations", "still live", "mapped"})
    EXPECT_THAT(traced_.err, testing::Not(HasSubstr(word)));
}

TEST_F(TraceOnlyGpu, ReportListsOnlyTheDevices) {
  const CommandResult text = run_headroom({"report", recording().string()});
  EXPECT_THAT(text.out, HasSubstr("GPU memory only (--only gpu), "));
  EXPECT_THAT(
      text.out,
      HasSubstr("\nGPU 0, Fake GPU 0, 64.00 GiB, limited to 256.0 MiB (hard according to the probe)\n"));
  EXPECT_THAT(text.out, HasSubstr("252.0 MiB 100 %  device memory (cuMemAlloc): "));
  // One frame or two: a compiler may peel the loop's first iteration.
  EXPECT_THAT(text.out, HasSubstr(" %  cuda_program::Plain::allocate"));
  EXPECT_THAT(text.out, HasSubstr("--to perfetto\n"));
  EXPECT_THAT(text.out, HasSubstr("  headroom trace --only gpu --gpu-mem-limit 0=256MiB -- "));
  for (const char* word :
       {"Allocated", "At the end ", "Leaks", "that hold the peak", "Fragmentation", "0 B at 0"})
    EXPECT_THAT(text.out, testing::Not(HasSubstr(word)));
}

TEST_F(TraceOnlyGpu, JsonHasNoHostKeys) {
  const Json json = report({});
  EXPECT_EQ(get_bool(json, "host_recorded"), false);
  EXPECT_EQ(get_integer(json["devices"].at(0), "peak_bytes"), kPeak);
  EXPECT_GT(get_integer(json, "events"), 72);
  expect_absent(
      json,
      words_of("allocations deallocations total_allocated_bytes peak_bytes peak_blocks peak_time_seconds "
               "leaked_bytes leaked_blocks sampled_allocations counted_allocations sample_period_bytes "
               "large_bytes unknown_releases missed_releases mapped peak_shares stacks modules size_classes "
               "lifetimes leaks fragmentation reuse timeline"));
  const Json& curve = json["devices"].at(0)["timeline"];
  ASSERT_FALSE(curve["start_ns"].empty());
  EXPECT_EQ(*std::max_element(curve["highest_bytes"].begin(), curve["highest_bytes"].end()), kPeak);
  ASSERT_EQ(trace({}, "plain", "1").exit_code, 2) << "nothing is overwritten";
  ASSERT_EQ(trace({"--force"}, "plain", "68719476736").exit_code, 0);
  EXPECT_EQ(get_bool(report({}), "host_recorded"), true);
}

TEST_F(TraceOnlyGpu, ReportAtATimeListsDeviceMemory) {
  const CommandResult text = run_headroom({"report", recording().string(), "--at", "peak"});
  EXPECT_THAT(text.out, HasSubstr(": GPU memory only (--only gpu)\n"));
  EXPECT_THAT(text.out, HasSubstr("\nGPU 0, Fake GPU 0: 252.0 MiB\n"));
  EXPECT_THAT(text.out, HasSubstr("252.0 MiB 100 %  device memory (cuMemAlloc): 36 allocations\n"));
  EXPECT_THAT(text.out, testing::Not(HasSubstr("By place")));
  const Json peak = report({"--at", "peak"});
  EXPECT_EQ(get_integer(peak["devices"].at(0), "bytes"), kPeak);
  std::int64_t by_stack = 0;
  for (const Json& stack : peak["devices"].at(0)["stacks"])
    by_stack += get_integer(stack, "bytes").value_or(0);
  EXPECT_EQ(by_stack, kPeak);
  expect_absent(peak, {"live_bytes", "live_blocks", "layers", "stacks", "modules", "size_classes", "threads",
                       "mapped"});
  EXPECT_EQ(get_integer(report({"--at", "end"})["devices"].at(0), "bytes"), 0);
}

TEST_F(TraceOnlyGpu, RejectsHeapOnlyCommandsWithAMessage) {
  const std::string file = recording().string();
  const fs::path whole = folder_ / "whole.hrec";
  fs::copy_file(recording(), whole);
  const auto refused = [](const Words& words, const char* sentence) {
    expect_one_error(run_headroom(words), sentence);
  };
  refused({"diff", file, whole.string()}, "it has GPU memory only (--only gpu)");
  for (const char* format : {"speedscope", "collapsed", "pprof", "heaptrack"})
    refused({"export", file, "--to", format}, "use --to timeline-json, or csv, or perfetto");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 2) << "an export was begun";
}

TEST_F(TraceOnlyGpu, ExportsContainOnlyTheDevices) {
  const auto exported = [&](const char* format) {
    const CommandResult result = run_headroom({"export", recording().string(), "--to", format, "--out", "-"});
    EXPECT_THAT(result, Ends(0));
    return result.out;
  };
  const Json timeline = json_of(exported("timeline-json"));
  const Json& summary = get_member(timeline, "summary");
  EXPECT_EQ(get_bool(summary, "host_recorded"), false);
  expect_absent(summary, {"peak_bytes", "leaked_bytes", "total_allocations", "mapped_peak_bytes"});
  EXPECT_EQ(get_integer(summary["devices"].at(0), "peak_bytes"), kPeak);
  for (const Json& event : get_member(timeline, "events")) {
    EXPECT_THAT(get_text(event, "event_type"), testing::StartsWith("device_"));
    expect_absent(event, {"allocated_bytes", "reserved_bytes", "fragmentation_ratio"});
  }
  const std::string csv = exported("csv");
  EXPECT_THAT(csv, HasSubstr("\r\ndevice,,,72,72,"));
  EXPECT_THAT(csv, testing::Not(HasSubstr("\r\nlayer,,,")));
  const std::string perfetto = exported("perfetto");
  EXPECT_THAT(perfetto, HasSubstr("GPU 0, Fake GPU 0"));
  EXPECT_THAT(perfetto, testing::Not(HasSubstr("mapped by the program")));
}

TEST_F(TraceOnlyGpu, WritesTheHtmlPage) {
  const fs::path page = folder_ / "page.html";
  ASSERT_EQ(run_headroom({"report", recording().string(), "--html", page.string()}).exit_code, 0);
  EXPECT_THAT(read_text(page), HasSubstr("\"host_recorded\":false"));
}

TEST_F(TraceOnlyGpu, TreeMarksGpuOnlyRecordings) {
  ASSERT_EQ(
      trace({"--only", "gpu", "--force", "--gpu-mem-limit", "256MiB"}, "process", std::to_string(256 << 20))
          .exit_code,
      0);
  const Json index = json_of(read_text(recording().string() + ".d/index.json"));
  ASSERT_EQ(get_member(index, "recordings").size(), 2u);
  for (const Json& entry : get_member(index, "recordings"))
    EXPECT_EQ(get_bool(entry, "host_recorded"), false);
  const Json json = report({"--all"});
  EXPECT_GT(get_integer(json["other_processes"].at(0), "device_peak_bytes"), 0);
  expect_absent(json["other_processes"].at(0), {"peak_bytes", "allocations", "leaked_bytes"});
  expect_absent(json["tree"], {"sum_of_peaks_bytes", "allocations", "leaked_bytes"});
  EXPECT_GT(get_integer(json["tree"], "sum_of_device_peaks_bytes"), 0);
  const CommandResult text = run_headroom({"report", recording().string(), "--all"});
  EXPECT_THAT(text.out, HasSubstr("All 2 processes: the GPU memory peaks add up to "));
}

TEST_F(TraceGpu, RejectsHeapFlagsWithOnlyGpu) {
  for (const Words& flags : {Words{"--full"}, Words{"--large", "8KiB"}, Words{"--sample-period", "1MiB"}}) {
    expect_one_error(trace(joined({{"--only", "gpu"}, flags}), "plain", "1"),
                     "--only gpu and " + flags[0] + " cannot be combined");
  }
  EXPECT_FALSE(fs::exists(recording()));
}

// The command line overrides contradicting environment variables.
TEST_F(TraceGpu, EnvironmentSetsOnlyGpuAndTheCommandLineWins) {
  const auto host_recorded = [&](std::vector<std::pair<std::string, std::string>> environment, Words flags) {
    EXPECT_THAT(run_headroom(
                    joined({{"trace", "--force", "--out", recording().string()}, flags, {"--", "/bin/true"}}),
                    in_folder(std::move(environment))),
                Ends(0));
    const Json report = json_of(run_headroom({"report", recording().string(), "--json"}));
    return get_bool(report, "host_recorded").value_or(false);
  };
  EXPECT_FALSE(host_recorded({{"HEADROOM_ONLY", "gpu"}}, {}));
  EXPECT_FALSE(host_recorded({{"HEADROOM_ONLY", "gpu"}, {"HEADROOM_FULL", "false"}}, {}));
  EXPECT_TRUE(host_recorded({{"HEADROOM_ONLY", "gpu"}}, {"--full"}));
  EXPECT_TRUE(host_recorded({{"HEADROOM_ONLY", "gpu"}}, {"--large", "8KiB"}));
  EXPECT_FALSE(host_recorded({{"HEADROOM_FULL", "true"}}, {"--only", "gpu"}));
  EXPECT_FALSE(host_recorded({{"HEADROOM_LARGE", "8KiB"}}, {"--only", "gpu"}));
}

TEST_F(TraceGpu, WrongLimitsAreNamed) {
  const std::vector<std::pair<Words, const char*>> wrong{
      {{"--gpu-mem-limit", "5"}, "invalid GPU limit 5"},
      {{"--gpu-mem-limit", "0GiB"}, "is not above zero"},
      {{"--gpu-mem-limit", "x=1GiB"}, "has no valid device"},
      {{"--gpu-mem-limit", "99=1GiB"}, "has no valid device"},
      {{"--gpu-mem-limit", "0=1GiB,0=2GiB"}, "twice"},
      {{"--share", "a/b"}, "is not a valid account name"},
      {{"--share", "headroom-test-nobody"}, "has no limit to share"},
  };
  for (const auto& [flags, sentence] : wrong) {
    EXPECT_THAT(trace(flags, "plain", "1"), Ends(2, testing::_, HasSubstr(sentence))) << flags.back();
    EXPECT_FALSE(fs::exists(recording()));
  }
}

TEST_F(TraceGpu, CommandsShareALimitByName) {
  const std::string name = "headroom-test-" + std::to_string(::getpid());
  {
    // Another command of that name that has allocated nothing yet.
    auto other = trace::DeviceAccount::open(limits_of(256 << 20), name);
    ASSERT_TRUE(other) << other.error().sentence();
    ledger::Account account;
    ASSERT_TRUE(account.open_shared(other->file().c_str()));
    ASSERT_TRUE(account.charge(0, 100 << 20));
    // It joins the first command's limit without specifying one, and gets what is left of it.
    EXPECT_THAT(trace({"--share", name, "--force"}, "threads", std::to_string(256 << 20)),
                Ends(1, testing::_, HasSubstr("the GPU memory limit was hard: all ")));
    // This process is the other command; the report shows it under the kernel's name for it.
    const CommandResult report = run_headroom({"report", recording().string()});
    EXPECT_THAT(report.out, HasSubstr("limited to 256.0 MiB (hard according to the probe)"));
    EXPECT_THAT(report.out, HasSubstr("  100.0 MiB held by process " + std::to_string(::getpid()) + " (" +
                                      own_name() + ")"));
    EXPECT_THAT(trace({"--share", name, "--gpu-mem-limit", "1GiB", "--force"}, "plain", "1"),
                Ends(2, testing::_, HasSubstr("differs from that of --share")));
  }
  const CommandResult alone = trace({"--share", name, "--force"}, "plain", "1");
  EXPECT_EQ(alone.exit_code, 2) << "the last member removed the account";
}

// The limit covers everything that the command starts, whichever recording is read first.
TEST_F(TraceGpu, ReportsRefusalsOfAChild) {
  CommandOptions options = in_folder();
  EXPECT_THAT(run_headroom({"trace", "--gpu-limit", "50MiB", "--out", recording().string(), "--", "sh", "-c",
                            test::built_path("tests/traced_cuda") + " proc plain 52428800 7340032; true"},
                           options),
              Ends(0, testing::_,
                   testing::AllOf(HasSubstr("GPU 0 peak 49.0 MiB of 50.0 MiB, 2 requests refused"),
                                  HasSubstr("the GPU memory limit was hard: all 12 routes that were tried "
                                            "were refused on each of 2 GPUs"))));
  const CommandResult idle = run_headroom(
      {"trace", "--gpu-limit", "50MiB", "--force", "--out", recording().string(), "--", "true"}, options);
  EXPECT_THAT(idle.err, HasSubstr("the command allocated no GPU memory"));
  EXPECT_THAT(run_headroom(
                  {"trace", "--gpu-limit", "5=50MiB", "--force", "--out", recording().string(), "--", "true"},
                  options),
              Ends(2, testing::_, HasSubstr("names device 5, which does not exist")));
}

TEST_F(TraceGpu, UnhookedDriverMakesTheLimitSoft) {
  const std::string programs = test::built_path("tests/");
  CommandOptions options = in_folder();
  const CommandResult result =
      run_headroom({"trace", "--gpu-mem-limit", "50MiB", "--out", recording().string(), "--",
                    programs + "traced_cuda_lookup", "apart-wrapper", programs + "libtraced_cuda_wrapper.so"},
                   options);
  EXPECT_THAT(result.err, HasSubstr("the GPU memory limit was soft: all "));
  EXPECT_THAT(result.err, HasSubstr("; 1 driver loaded with dlmopen, which the limit cannot intercept"));
}

// The probe tests the limit before the run; what the command did counts, too.
TEST_F(TraceGpu, ExceededLimitIsSoft) {
  const std::string name = "headroom-test-" + std::to_string(::getpid());
  auto other = trace::DeviceAccount::open(limits_of(256 << 20), name);
  ASSERT_TRUE(other) << other.error().sentence();
  EXPECT_TRUE(other->has_kept_limits());
  ledger::Account account;
  ASSERT_TRUE(account.open_shared(other->file().c_str()));
  account.force_charge(1, 300 << 20);
  EXPECT_FALSE(other->has_kept_limits());
  EXPECT_FALSE(other->has_kept_limit(1));
  EXPECT_TRUE(other->has_kept_limit(0));
  EXPECT_THAT(trace({"--share", name}, "plain", std::to_string(256 << 20)),
              Ends(0, testing::_,
                   testing::AllOf(HasSubstr("the GPU memory limit was soft: all "),
                                  HasSubstr("; at times, usage exceeded the limit"))));
}

// Memory derived from differences is listed apart from allocations: the context once, and only the modules
// that remain. Allocations of another thread during a module load are not included.
TEST_F(TraceGpu, ListsContextsAndModulesSeparately) {
  const Json device = device_of("modules");
  EXPECT_EQ(get_integer(device, "context_bytes"), 500'000'000);
  EXPECT_EQ(get_integer(device, "overhead_bytes"), 6 << 20) << "an upper bound: some are unloaded at the end";
  EXPECT_FALSE(device.contains("driver_growth_bytes")) << "the driver allocated nothing more";
  EXPECT_EQ(get_integer(device, "peak_bytes"), 64 << 20);
  const CommandResult text = run_headroom({"report", recording().string()});
  EXPECT_THAT(text.out, HasSubstr("Contexts   476.8 MiB in addition to the allocations, by difference"));
  EXPECT_THAT(text.out,
              HasSubstr("Modules    at most 6.0 MiB in addition to the allocations, by difference"));
  EXPECT_FALSE(device_of("modules", test::built_path("tests/fake_cuda")).contains("context_bytes"))
      << "without NVML it is unknown";
}

// Neither the driver's rounding nor managed memory, which NVML does not count, is mistaken for context
// memory.
TEST_F(TraceGpu, ListsTheDriversRoundingSeparately) {
  const Json device = device_of("granules");
  constexpr std::int64_t kMiB = 1 << 20, kArray = 1001 * 16384;  // rows are multiples of 512 bytes
  EXPECT_EQ(get_integer(device, "context_bytes"), 500'000'000);
  EXPECT_EQ(get_integer(device, "peak_bytes"), 10 * (kMiB + 17) + 4097 + kArray + 100 * kMiB);
  EXPECT_EQ(get_integer(device, "rounding_at_peak_bytes"), 10 * (kMiB - 17) + 16 * kMiB - kArray);
  const CommandResult text = run_headroom({"report", recording().string()});
  EXPECT_THAT(text.out, HasSubstr("Granules   10.4 MiB more at the peak: the driver rounds allocations over "
                                  "1.0 MiB up to multiples of 2.0 MiB"));
}

// Its constructor runs before those of the tracing library.
TEST_F(TraceGpu, AllowsDriverLookupInAnotherLibrarysConstructor) {
#ifdef HEADROOM_SANITIZED
  GTEST_SKIP() << "a sanitizer's library must come first";
#endif
  CommandOptions options = in_folder({{"LD_LIBRARY_PATH", test::built_path("tests/fake_cuda")},
                                      {"LD_PRELOAD", test::built_path("tests/libtraced_early.so")}});
  EXPECT_THAT(run_headroom({"trace", "--force", "--gpu-mem-limit", "64MiB", "--out", recording().string(),
                            "--", "/bin/true"},
                           options),
              Ends(0, testing::_, HasSubstr("early: 0")));
  EXPECT_EQ(get_integer(first_device(), "peak_bytes"), 1 << 20);
}

TEST_F(TraceGpu, StopsCountingDestroyedContexts) {
  EXPECT_EQ(get_integer(device_of("contexts"), "context_bytes"), 500'000'000);
  device_of("closes");
}

// NVML is queried once a second: that takes a thousand times as long as querying graph memory.
TEST_F(TraceGpu, QueriesGraphMemoryMoreOftenThanNvml) {
  CommandOptions options = in_folder({{"LD_LIBRARY_PATH", with_nvml()}});
  const std::string out = run_headroom({"trace", "--out", recording().string(), "--",
                                        test::built_path("tests/traced_cuda_lookup"), "launches", "none"},
                                       options)
                              .out;
  unsigned looks = 0;
  ASSERT_EQ(std::sscanf(out.c_str(), "graphs %u", &looks), 1) << out;
  EXPECT_GE(looks, 6u) << "while NVML was queried two or three times";
}

// Launches are not hooked; their memory is found soon after.
TEST_F(TraceGpu, FindsMemoryOfLaunchesLater) {
  const Json device = device_of("launches");
  EXPECT_EQ(get_integer(device, "context_bytes"), 500'000'000);
  EXPECT_EQ(get_integer(device, "driver_growth_bytes"), 12 << 20);
  EXPECT_THAT(run_headroom({"report", recording().string()}).out,
              HasSubstr("Driver     at most 12.0 MiB more later, by difference"));
  EXPECT_EQ(get_integer(device, "graph_reserved_peak_bytes"), 32 << 20);
  EXPECT_EQ(get_integer(device, "peak_bytes"), 96 << 20);
}

}  // namespace
}  // namespace headroom::test
