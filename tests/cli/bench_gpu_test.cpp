// A machine whose NVIDIA driver is a library of the tests' own: what it tells comes through to the files of a
// run.
#include <gtest/gtest.h>

#include "base/text.h"
#include "cli/command.h"

namespace headroom::test {
namespace {
namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

TEST(BenchGpu, GpusAreInTheReportTheSeriesAndTheWarnings) {
  Bench bench;
  const fs::path libraries = bench.path() / "libraries";
  fs::create_directory(libraries);
  fs::copy_file(fs::path(HEADROOM_BINARY_DIR) / "tests/libfake_nvml_throttled.so",
                libraries / "libnvidia-ml.so.1");
  CommandOptions options;
  options.environment = {{"LD_LIBRARY_PATH", libraries.string()}};
  const CommandResult result =
      bench.run({"--source", bench.pictures(), "--backend", "misbehaving", "--max-frames", "3",
                 "--metrics-interval", "0.05", "--model", "slow=" + bench.model("slow", "run sleep 100")},
                options);
  ASSERT_EQ(result.exit_code, 0) << result.err;

  const Json report = bench.report();
  const Json& host = get_member(report, "host");
  EXPECT_EQ(get_text(host, "gpu_driver"), "580.159.04");
  ASSERT_EQ(get_member(host, "gpus").size(), 1U);
  EXPECT_EQ(get_text(host["gpus"][0], "name"), "Throttled GPU");
  EXPECT_EQ(get_text(host["gpus"][0], "uuid"), "GPU-0");
  EXPECT_EQ(get_integer(host["gpus"][0], "memory_total_bytes"), 8589934592);
  std::vector<std::string> warnings;
  const Json model = model_of(report, "slow");
  for (const Json& warning : get_member(model, "warnings")) warnings.push_back(warning);
  EXPECT_THAT(warnings, Contains("the clock was throttled while it ran (GPU 0: software power cap)"));
  EXPECT_THAT(read_text(bench.run_folder() / "report.md"),
              HasSubstr("Throttled GPU, 8.00 GiB, PCI 00000000:01:00.0"));

  const std::string series = read_text(bench.run_folder() / "metrics.jsonl");
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
