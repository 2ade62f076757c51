// A machine with a fake NVIDIA driver: its figures must reach the files of a run.

#include "base/text.h"
#include "cli/bench_fixture.h"
#include "cli/process_tree.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

class BenchGpu : public BenchTest {
 protected:
  // A run of one slow model, with the fake driver and these settings of it.
  CommandResult run_slow(std::vector<std::pair<std::string, std::string>> environment = {},
                         std::function<bool(int)> while_running = {}) {
    const fs::path libraries = bench_.path() / "libraries";
    fs::create_directory(libraries);
    fs::copy_file(fs::path(test::built_path("tests/libfake_nvml_throttled.so")),
                  libraries / "libnvidia-ml.so.1");
    environment.emplace_back("LD_LIBRARY_PATH", libraries.string());
    CommandOptions options;
    options.environment = std::move(environment);
    options.while_running = std::move(while_running);
    CommandResult result = run(slow_, options);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result;
  }
  void expect_gpus_in_report_and_series() const {
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
  Words slow_{"--max-frames", "3", "--metrics-interval", "0.05", "--model", model("slow", "run sleep 100")};
};

// Children of `parent` that read the GPUs.
std::vector<int> gpu_children_of(int parent) {
  std::vector<int> found;
  for (const Child& child : descendants_of(parent))
    if (child.verb == "_gpu_metrics") found.push_back(child.pid);
  return found;
}

std::int64_t lines_with_gpus(const Bench& bench) {
  const std::string series = read_text(bench.run_folder() / "metrics.jsonl");
  std::int64_t count = 0;
  for (const auto line : split(series, '\n'))
    count += line.find("\"gpus\"") != std::string_view::npos ? 1 : 0;
  return count;
}

TEST_F(BenchGpu, ReportsGpusWithoutTheDriverInTheConductor) {
  bool child_was_seen = false, conductor_loaded_it = false, child_is_spared = false;
  run_slow({}, [&](int conductor) {
    const auto has_it = [](int pid) {
      return read_text("/proc/" + std::to_string(pid) + "/maps").find("libnvidia-ml") != std::string::npos;
    };
    conductor_loaded_it = conductor_loaded_it || has_it(conductor);
    for (const int child : gpu_children_of(conductor)) {
      child_was_seen = child_was_seen || has_it(child);
      const std::string status = read_text("/proc/" + std::to_string(child) + "/status");
      child_is_spared = child_is_spared || (status.find("VmLck:\t") != std::string::npos &&
                                            status.find("VmLck:\t       0 kB") == std::string::npos);
    }
    return true;
  });
  EXPECT_TRUE(child_was_seen);
  EXPECT_FALSE(conductor_loaded_it);
  EXPECT_FALSE(child_is_spared) << "the pages of a run's processes are not locked";
  expect_gpus_in_report_and_series();
}

TEST_F(BenchGpu, StartsNoGpuChildWithoutADriver) {
  if (fs::exists("/proc/driver/nvidia/version") || fs::exists("/dev/nvidiactl"))
    GTEST_SKIP() << "this machine has NVIDIA's driver; skipped";
  CommandOptions options;
  bool child_was_seen = false;
  options.while_running = [&](int conductor) {
    child_was_seen = child_was_seen || !gpu_children_of(conductor).empty();
    return true;
  };
  EXPECT_EQ(run(slow_, options).exit_code, 0);
  EXPECT_FALSE(child_was_seen);
}

TEST_F(BenchGpu, LosesOnlyGpuMetricsWhenTheDriverCrashes) {
  const CommandResult result = run_slow({{"FAKE_NVML_CRASH", "3"}});
  const std::string words = "the process that reads the GPUs ended with SIGSEGV";
  EXPECT_THAT(result.err, HasSubstr(words));
  EXPECT_EQ(result.err.find(words), result.err.rfind(words)) << result.err;
  EXPECT_EQ(lines_with_gpus(bench_), 2);
  const Json report = bench_.report();
  EXPECT_EQ(status_of("slow"), "ok");
  EXPECT_THAT(to_text(get_member(report, "warnings")), HasSubstr(words));
}

TEST_F(BenchGpu, ContinuesWhenTheDriverHangs) {
  run_slow({{"FAKE_NVML_HANG", "2"}});
  EXPECT_EQ(lines_with_gpus(bench_), 1);
  EXPECT_GT(split(file("metrics.jsonl"), '\n').size(), 3U);
  EXPECT_EQ(status_of("slow"), "ok");
}

}  // namespace
}  // namespace headroom::test
