// The example files for Grafana and Prometheus use only series and labels that `headroom serve` exports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "base/json.h"
#include "monitoring/alerts.h"
#include "serve/prometheus_text.h"
#include "support/test_support.h"

namespace headroom::serve {
namespace {

// A machine with all figures: a Jetson that swaps, whose memory grows, with a second, discrete GPU.
SystemSample sample_at(std::int64_t second) {
  SystemSample sample;
  sample.time = {second * 1'000'000'000};
  sample.ram_total = gibibytes(8);
  sample.ram_used = mebibytes(4096 + 25 * second);
  sample.ram_free = sample.ram_available = *sample.ram_total - *sample.ram_used;
  sample.ram_buffers = sample.ram_cached = sample.ram_anonymous = mebibytes(10);
  sample.swap_total = gibibytes(1);
  sample.swap_used = mebibytes(1);
  sample.nvmap_used = gibibytes(1);
  sample.cpu_percent = sample.gpu_percent = sample.emc_percent = 10;
  sample.psi_some_stalled = sample.psi_full_stalled = Nanoseconds{1'000'000};
  sample.oom_kills = 0;
  sample.temperatures_celsius = {{"cpu", 50}};
  sample.power_watts = {{"VDD_IN", 10}};
  sample.processes.resize(1);
  sample.processes[0].pid = 1;
  sample.processes[0].name = "init";
  sample.processes[0].rss = mebibytes(1);
  sample.gpus.resize(1);
  sample.gpus[0].index = 0;
  sample.gpus[0].memory_total = gibibytes(16);
  sample.gpus[0].memory_used = gibibytes(1);
  sample.gpus[0].temperature_celsius = 50;
  sample.gpus[0].power_watts = 20;
  return sample;
}

std::string all_metrics() {
  monitoring::MemoryRisk risk({1'000'000'000});
  Counters counters;
  for (std::int64_t second = 0; second < 120; ++second) {
    risk.add(sample_at(second));
    counters.add(sample_at(second));
  }
  return prometheus_text(sample_at(120), counters, risk, monitoring::default_alert_rules(), {});
}

// The distinct first groups of all matches of `pattern` in `text`.
std::set<std::string> found(const std::string& text, const char* pattern) {
  const std::regex expression(pattern);
  std::set<std::string> all;
  for (auto match = std::sregex_iterator(text.begin(), text.end(), expression);
       match != std::sregex_iterator(); ++match)
    all.insert((*match)[1]);
  return all;
}

std::string packaged(const std::string& file) {
  return test::read_text(std::filesystem::path(test::source_path("packaging")) / file);
}

Json dashboard() {
  auto parsed = parse_json(packaged("grafana/headroom.json"));
  EXPECT_TRUE(parsed);
  return parsed ? *parsed : Json::object();
}

TEST(Dashboard, QueriesExistingSeriesAndLabels) {
  const std::string metrics = all_metrics();
  std::size_t targets = 0;
  const Json document = dashboard();
  for (const Json& panel : document["panels"]) {
    for (const Json& target : panel["targets"]) {
      ++targets;
      const std::string expression = get_text(target, "expr");
      const auto names = found(expression, "(headroom_[a-z_]+)");
      ASSERT_EQ(names.size(), 1u) << expression;
      // A series of this name, with every label that the legend shows.
      std::string line = "\n" + *names.begin();
      EXPECT_THAT(metrics, testing::AnyOf(testing::HasSubstr(line + " "), testing::HasSubstr(line + "{")))
          << expression;
      for (const std::string& label : found(get_text(target, "legendFormat"), "\\{\\{([a-z]+)\\}\\}"))
        EXPECT_FALSE(found(metrics, ("\n(" + *names.begin() + ")\\{[^\n]*" + label + "=\"").c_str()).empty())
            << expression << " has no label " << label;
    }
  }
  EXPECT_GE(targets, 10u);
}

TEST(Dashboard, RulesUseExistingSeries) {
  const std::string metrics = all_metrics();
  const auto names = found(packaged("prometheus/rules.yml"), "expr:[^\n]*?(headroom_[a-z_]+)");
  EXPECT_GE(names.size(), 4u);
  for (const std::string& name : names)
    EXPECT_THAT(metrics, testing::HasSubstr("# TYPE " + name + " ")) << name;
}

// Grafana's grid has 24 columns. Overlapping panels push each other away.
TEST(Dashboard, PanelsDoNotOverlap) {
  std::set<std::int64_t> ids;
  std::set<std::pair<std::int64_t, std::int64_t>> taken;
  const Json document = dashboard();
  for (const Json& panel : document["panels"]) {
    EXPECT_TRUE(ids.insert(panel.value("id", std::int64_t{0})).second);
    EXPECT_EQ(get_text(panel["datasource"], "uid"), "${datasource}");
    const Json& place = panel["gridPos"];
    const std::int64_t x = place["x"], y = place["y"], w = place["w"], h = place["h"];
    EXPECT_LE(x + w, 24);
    for (std::int64_t column = x; column < x + w; ++column)
      for (std::int64_t row = y; row < y + h; ++row)
        EXPECT_TRUE(taken.insert({column, row}).second) << get_text(panel, "title");
  }
}

}  // namespace
}  // namespace headroom::serve
