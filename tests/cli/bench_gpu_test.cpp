// A machine with a fake NVIDIA driver: its figures must reach the files of a run.

#include "base/text.h"
#include "cli/bench_fixture.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using BenchGpu = BenchTest;

std::string folder_of_the_driver(const Bench& bench) {
  const fs::path libraries = bench.path() / "libraries";
  fs::create_directory(libraries);
  fs::copy_file(fs::path(test::built_path("tests/libfake_nvml_throttled.so")),
                libraries / "libnvidia-ml.so.1");
  return libraries.string();
}

std::vector<std::string> slow_run(Bench& bench) {
  return {"--source",
          bench.pictures(),
          "--backend",
          "misbehaving",
          "--max-frames",
          "3",
          "--metrics-interval",
          "0.05",
          "--model",
          "slow=" + bench.model("slow", "run sleep 100")};
}

// Children of `parent` whose command line contains `word`.
std::vector<int> children_of(int parent, const std::string& word) {
  std::vector<int> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto pid = parse_number<int>(entry.path().filename().string());
    if (!pid || read_text(entry.path() / "cmdline").find(word) == std::string::npos) continue;
    const std::string status = read_text(entry.path() / "status");
    if (status.find("PPid:\t" + std::to_string(parent) + "\n") != std::string::npos) found.push_back(*pid);
  }
  return found;
}

std::int64_t lines_with_gpus(const Bench& bench) {
  const std::string series = read_text(bench.run_folder() / "metrics.jsonl");
  std::int64_t count = 0;
  for (const auto line : split(series, '\n'))
    count += line.find("\"gpus\"") != std::string_view::npos ? 1 : 0;
  return count;
}

TEST_F(BenchGpu, NeverLoadsTheDriverInTheConductor) {
  CommandOptions options;
  options.environment = {{"LD_LIBRARY_PATH", folder_of_the_driver(bench_)}};
  bool child_was_seen = false, conductor_loaded_it = false, child_is_spared = false;
  options.while_running = [&](int conductor) {
    const auto has_it = [](int pid) {
      return read_text("/proc/" + std::to_string(pid) + "/maps").find("libnvidia-ml") != std::string::npos;
    };
    conductor_loaded_it = conductor_loaded_it || has_it(conductor);
    for (const int child : children_of(conductor, "_gpu_metrics")) {
      child_was_seen = child_was_seen || has_it(child);
      const std::string status = read_text("/proc/" + std::to_string(child) + "/status");
      child_is_spared = child_is_spared || (status.find("VmLck:\t") != std::string::npos &&
                                            status.find("VmLck:\t       0 kB") == std::string::npos);
    }
    return true;
  };
  const CommandResult result = bench_.run(slow_run(bench_), options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(child_was_seen);
  EXPECT_FALSE(conductor_loaded_it);
  EXPECT_FALSE(child_is_spared) << "the pages of a run's processes are not locked";
}

TEST_F(BenchGpu, StartsNoGpuChildWithoutADriver) {
  if (fs::exists("/proc/driver/nvidia/version") || fs::exists("/dev/nvidiactl"))
    GTEST_SKIP() << "this machine has NVIDIA's driver; skipped";
  CommandOptions options;
  bool child_was_seen = false;
  options.while_running = [&](int conductor) {
    child_was_seen = child_was_seen || !children_of(conductor, "_gpu_metrics").empty();
    return true;
  };
  const CommandResult result = bench_.run(slow_run(bench_), options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(child_was_seen);
}

TEST_F(BenchGpu, LosesOnlyGpuMetricsWhenTheDriverCrashes) {
  CommandOptions options;
  options.environment = {{"LD_LIBRARY_PATH", folder_of_the_driver(bench_)}, {"FAKE_NVML_CRASH", "3"}};
  const CommandResult result = bench_.run(slow_run(bench_), options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string words = "the process that reads the GPUs ended with SIGSEGV";
  EXPECT_THAT(result.err, HasSubstr(words));
  EXPECT_EQ(result.err.find(words), result.err.rfind(words)) << result.err;
  EXPECT_EQ(lines_with_gpus(bench_), 2);
  const Json report = bench_.report();
  EXPECT_EQ(status_of("slow"), "ok");
  EXPECT_THAT(to_text(get_member(report, "warnings")), HasSubstr(words));
}

TEST_F(BenchGpu, ContinuesWhenTheDriverHangs) {
  CommandOptions options;
  options.environment = {{"LD_LIBRARY_PATH", folder_of_the_driver(bench_)}, {"FAKE_NVML_HANG", "2"}};
  const CommandResult result = bench_.run(slow_run(bench_), options);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(lines_with_gpus(bench_), 1);
  EXPECT_GT(split(file("metrics.jsonl"), '\n').size(), 3U);
  EXPECT_EQ(status_of("slow"), "ok");
}

TEST_F(BenchGpu, ReportsGpusInReportSeriesAndWarnings) {
  CommandOptions options;
  options.environment = {{"LD_LIBRARY_PATH", folder_of_the_driver(bench_)}};
  const CommandResult result = bench_.run(slow_run(bench_), options);
  ASSERT_EQ(result.exit_code, 0) << result.err;

  const Json report = bench_.report();
  const Json& host = get_member(report, "host");
  EXPECT_EQ(get_text(host, "gpu_driver"), "580.159.04");
  ASSERT_EQ(get_member(host, "gpus").size(), 1U);
  EXPECT_EQ(get_text(host["gpus"][0], "name"), "Throttled GPU");
  EXPECT_EQ(get_text(host["gpus"][0], "uuid"), "GPU-0");
  EXPECT_EQ(get_integer(host["gpus"][0], "memory_total_bytes"), 8589934592);
  std::vector<std::string> warnings;
  const Json model = entry("slow");
  for (const Json& warning : get_member(model, "warnings")) warnings.push_back(warning);
  EXPECT_THAT(warnings, Contains("the clock was throttled while it ran (GPU 0: software power cap)"));
  EXPECT_THAT(file("report.md"), HasSubstr("Throttled GPU, 8.00 GiB, PCI 00000000:01:00.0"));

  const std::string series = file("metrics.jsonl");
  const auto line = parse_json(split(series, '\n')[0]);
  ASSERT_TRUE(line);
  EXPECT_EQ(get_number(*line, "gpu_percent"), 50);
  EXPECT_EQ(get_bool(*line, "throttled"), true);
  ASSERT_EQ(get_member(*line, "gpus").size(), 1U);
  EXPECT_EQ(get_integer((*line)["gpus"][0], "memory_used_bytes"), 1 << 30);
  std::vector<std::string> metrics;
  for (const Json& metric : get_member(report, "system")) metrics.push_back(get_text(metric, "name"));
  EXPECT_THAT(metrics, Contains("gpu_memory_used_bytes.gpu0"));
  EXPECT_THAT(metrics, Contains("power_watts.gpu0"));
}

}  // namespace
}  // namespace headroom::test
