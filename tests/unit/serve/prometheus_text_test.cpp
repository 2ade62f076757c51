#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>
#include <set>
#include <string>

#include "base/json.h"
#include "base/text.h"
#include "monitoring/alerts.h"
#include "serve/prometheus_text.h"
#include "support/test_support.h"

namespace headroom::serve {
namespace {
using testing::HasSubstr;
using testing::Not;

std::string text_of(const SystemSample& sample, const Counters& counters = {}) {
  monitoring::MemoryRisk risk({1'000'000'000});
  risk.add(sample);
  monitoring::Alerts alerts(monitoring::default_alert_rules());
  alerts.update(sample.time, risk);
  return prometheus_text(sample, counters, risk, monitoring::default_alert_rules(), alerts.active());
}

TEST(PrometheusText, UsesBaseUnitsAndOmitsUnknownFigures) {
  SystemSample sample;
  sample.ram_total = gibibytes(8);
  sample.ram_used = gibibytes(2);
  sample.cpu_percent = 12.5;
  sample.psi_some_avg10 = 3;
  sample.clocks_hz = {{"cpu0", 1'190'400'000}};
  const std::string text = text_of(sample);
  EXPECT_THAT(
      text, HasSubstr("# TYPE headroom_memory_total_bytes gauge\nheadroom_memory_total_bytes 8589934592\n"));
  EXPECT_THAT(text, HasSubstr("headroom_cpu_busy_ratio 0.125\n"));
  EXPECT_THAT(text, HasSubstr("headroom_pressure_some_ratio 0.03\n"));
  EXPECT_THAT(text, HasSubstr("headroom_clock_hertz{domain=\"cpu0\"} 1190400000\n"));
  for (const char* absent : {"swap", "gpu_memory", "nvmap", "temperature", "oom_kills"})
    EXPECT_THAT(text, Not(HasSubstr(std::string("headroom_") + absent))) << absent;
}

TEST(PrometheusText, CountersAddUpAndNeverDecrease) {
  Counters counters;
  SystemSample sample;
  sample.oom_kills = 1;
  sample.pages_swapped_in = 10;
  sample.psi_some_stalled = Nanoseconds{250'000'000};
  counters.add(sample);
  sample.oom_kills = 0;
  sample.pages_swapped_in = -5;  // the kernel's counter restarted
  counters.add(sample);
  const std::string text = text_of(sample, counters);
  EXPECT_THAT(text, HasSubstr("# TYPE headroom_oom_kills_total counter\nheadroom_oom_kills_total 1\n"));
  EXPECT_THAT(text, HasSubstr("headroom_pages_swapped_in_total 10\n"));
  EXPECT_THAT(text, HasSubstr("headroom_pressure_some_seconds_total 0.5\n"));
  EXPECT_THAT(text, HasSubstr("headroom_samples_total 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("headroom_refaults_total")));
}

TEST(PrometheusText, EscapesAnyNameAsLabel) {
  EXPECT_EQ(escaped_label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
  SystemSample sample;
  sample.processes.resize(2);
  sample.processes[0].pid = 7;
  sample.processes[0].name = "we\"ird";
  sample.processes[1].pid = 8;
  sample.processes[1].name = "\xff\xfe";
  for (ProcessSample& process : sample.processes) process.rss = Bytes{4096};
  const std::string text = text_of(sample);
  EXPECT_THAT(text, HasSubstr("headroom_process_resident_bytes{pid=\"7\",name=\"we\\\"ird\"} 4096\n"));
  EXPECT_THAT(text, HasSubstr("{pid=\"8\",name=\"\xEF\xBF\xBD\xEF\xBF\xBD\"}"))
      << "Prometheus requires UTF-8";
}

TEST(PrometheusText, WritesSeriesOfPools) {
  SystemSample sample;
  PoolSample pool;
  pool.name = "vision";
  pool.pid = 17;
  pool.device = "cpu";
  pool.budget = mebibytes(64);
  pool.used = mebibytes(48);
  pool.requests = 9;
  pool.load_time = {1'500'000'000};
  sample.pools = {pool};
  const std::string text = text_of(sample);
  const std::string labels = "{pool=\"vision\",pid=\"17\",device=\"cpu\"} ";
  EXPECT_THAT(text, HasSubstr("headroom_pool_used_bytes" + labels + "50331648\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE headroom_pool_requests_total counter\n"));
  EXPECT_THAT(text, HasSubstr("headroom_pool_requests_total" + labels + "9\n"));
  EXPECT_THAT(text, HasSubstr("headroom_pool_load_seconds_total" + labels + "1.5\n"));
}

// Prometheus rejects the whole page if it contains a series twice.
TEST(PrometheusText, WritesNoSeriesTwice) {
  SystemSample sample;
  sample.temperatures_celsius = {{"thermal", 40}, {"thermal", 41}, {"cpu", 50}, {"thermal", 42}};
  sample.gpus.resize(2);
  for (GpuSample& gpu : sample.gpus) gpu.memory_total = gibibytes(4);
  const std::string text = text_of(sample);
  std::set<std::string> seen;
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty() || line.starts_with('#')) continue;
    EXPECT_TRUE(seen.insert(std::string(line.substr(0, line.rfind(' ')))).second) << line;
  }
  EXPECT_TRUE(seen.contains("headroom_temperature_celsius{sensor=\"thermal#3\"}"));
}

TEST(PrometheusText, EveryRuleHasASeries) {
  SystemSample sample;
  sample.oom_kills = 1;
  const std::string text = text_of(sample);
  EXPECT_THAT(text, HasSubstr("headroom_alert_active{alert=\"oom_kill\",severity=\"critical\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("headroom_alert_active{alert=\"total_memory\",severity=\"critical\"} 0\n"));
}

}  // namespace

// The example files for Grafana and Prometheus use only series and labels that `headroom serve` exports.

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

}  // namespace

}  // namespace headroom::serve
