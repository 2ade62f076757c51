#include "watch/sample_writer.h"

#include <cmath>

#include "base/json.h"
#include "base/text.h"
#include "report/run/metrics_json.h"
#include "support/test_support.h"

namespace headroom::watch {
namespace {

SystemSample sample_of_everything() {
  SystemSample sample;
  sample.time = {1'500'000'000};
  sample.unix_time = Nanoseconds{1'795'371'097'000'000'000};
  sample.clock_text = "11-22-2026 \"10:00\"\\";
  sample.cpu_percent = 12;
  sample.gpu_percent = 1e300;
  sample.ram_total = gibibytes(8);
  sample.oom_kills = -1;
  sample.cgroup = CgroupMemory{};
  sample.cgroup->limit = mebibytes(64);
  sample.cores = {{true, 0.1, 1.9e9}, {false, std::nullopt, std::nullopt}};
  sample.temperatures_celsius = {
      {"gpu", 45.5}, {"µ-controller", 1.0 / 3}, {"\x1b[31m\xff", 2}, {"gpu", 46.25}, {"none", std::nan("")}};
  sample.power_watts = {{"none", std::nan("")}};
  sample.engines = {{"nvenc", true, std::nullopt, 7.296e8}};
  sample.throttled = false;
  GpuSample gpu;
  gpu.index = 0;
  gpu.name = "GeForce";
  gpu.processes.emplace();
  gpu.processes->push_back({});
  sample.gpus = {gpu};
  ProcessSample process;
  process.pid = 7;
  process.name = "a \"name\"\n";
  process.user = "robot";
  sample.processes = {process, {}};
  sample.kernel_events = {{KernelEventKind::nvmap_error, std::nullopt, "", "said"}};
  sample.unknown_tokens = {"NEW", ""};
  return sample;
}

// The two functions that convert a sample to JSON give the same content in the same order.
TEST(SampleWriter, JsonLineEqualsTheDocument) {
  for (SystemSample sample : {sample_of_everything(), SystemSample{}}) {
    const auto line = parse_json(json_line(sample));
    ASSERT_TRUE(line) << line.error().sentence() << json_line(sample);
    Json document = report::to_json(sample);
    if (sample.unknown_tokens.empty()) document["unknown_tokens"] = Json::array();
    // Invalid UTF-8 is replaced when it is written.
    EXPECT_EQ(nlohmann::json(*line), nlohmann::json(*parse_json(to_line(document))));
    sample.temperatures_celsius.clear();
    document = report::to_json(sample);
    if (sample.unknown_tokens.empty()) document["unknown_tokens"] = Json::array();
    EXPECT_EQ(trim(json_line(sample)), to_line(document));
  }
}

TEST(SampleWriter, CountsUnknownTokensForAPerson) {
  SystemSample sample;
  sample.unknown_tokens = {"NEW"};
  EXPECT_THAT(line_for_person(sample), testing::EndsWith("  1 unknown token\n"));
  sample.unknown_tokens = {"NEW", "NEWER"};
  EXPECT_THAT(line_for_person(sample), testing::EndsWith("  2 unknown tokens\n"));
}

TEST(SampleWriter, WritesAlertsIntoTheirLine) {
  AlertEvent event;
  event.rule = "hot";
  const auto line = parse_json(json_line(SystemSample{}, std::span(&event, 1)));
  ASSERT_TRUE(line);
  EXPECT_EQ(get_text((*line)["alerts"][0], "alert"), "hot");
}

}  // namespace
}  // namespace headroom::watch
