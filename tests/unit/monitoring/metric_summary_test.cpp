#include "monitoring/metric_summary.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace headroom::monitoring {
namespace {

const MetricSummary* find(const std::vector<MetricSummary>& metrics, std::string_view name) {
  const auto found = std::find_if(metrics.begin(), metrics.end(),
                                  [&](const MetricSummary& metric) { return metric.name == name; });
  return found == metrics.end() ? nullptr : &*found;
}

TEST(MetricSummary, OmitsAbsentFigures) {
  SystemSample first;  // the first sample has no rates
  first.ram_used = Bytes{100};
  SystemSample second;
  second.cpu_percent = 40;
  second.ram_used = Bytes{300};
  SystemSample third;
  third.cpu_percent = 80;
  third.ram_used = Bytes{200};
  const auto metrics = summarise_metrics(std::vector<SystemSample>{first, second, third});
  ASSERT_EQ(metrics.size(), 2U);
  EXPECT_EQ(*find(metrics, "cpu_percent"), (MetricSummary{"cpu_percent", 2, 40, 60, 80}));
  EXPECT_EQ(*find(metrics, "ram_used_bytes"), (MetricSummary{"ram_used_bytes", 3, 100, 200, 300}));
}

TEST(MetricSummary, NamesSensors) {
  SystemSample sample;
  sample.temperatures_celsius = {{"cpu-thermal", 41.5}, {"gpu-thermal", 39}};
  sample.power_watts = {{"VDD_IN", 4.75}};
  sample.clocks_hz = {{"cpu0", 1.5e9}};
  sample.throttled = true;
  SystemSample later = sample;
  later.temperatures_celsius = {{"cpu-thermal", 43.5}};
  later.throttled = false;
  const auto metrics = summarise_metrics(std::vector<SystemSample>{sample, later});
  EXPECT_EQ(*find(metrics, "temperature_celsius.cpu-thermal"),
            (MetricSummary{"temperature_celsius.cpu-thermal", 2, 41.5, 42.5, 43.5}));
  EXPECT_EQ(find(metrics, "temperature_celsius.gpu-thermal")->n, 1);
  EXPECT_EQ(find(metrics, "power_watts.VDD_IN")->mean, 4.75);
  EXPECT_EQ(find(metrics, "clock_hz.cpu0")->n, 2);
  EXPECT_EQ(find(metrics, "throttled")->mean, 0.5);  // the share of the samples
}

TEST(MetricSummary, HandlesEmptyInput) { EXPECT_TRUE(summarise_metrics({}).empty()); }

TEST(MetricSummary, HasFiguresOfEachGpu) {
  SystemSample one;
  one.gpu_percent = 40;
  one.gpus.resize(1);
  one.gpus[0].index = 0;
  one.gpus[0].gpu_percent = 40;
  one.gpus[0].memory_used = Bytes{100};
  one.gpus[0].temperature_celsius = 35;
  auto metrics = summarise_metrics(std::vector<SystemSample>{one});
  EXPECT_EQ(metrics.size(), 3U);  // absent figures are omitted; the GPU's load is the machine's
  EXPECT_EQ(*find(metrics, "gpu_memory_used_bytes.gpu0"),
            (MetricSummary{"gpu_memory_used_bytes.gpu0", 1, 100, 100, 100}));
  ASSERT_NE(find(metrics, "temperature_celsius.gpu0"), nullptr);
  one.gpus.push_back(one.gpus[0]);
  one.gpus[1].index = 1;
  one.gpus[1].memory_used = Bytes{300};
  metrics = summarise_metrics(std::vector<SystemSample>{one});
  ASSERT_NE(find(metrics, "gpu_load_percent.gpu0"), nullptr);
  ASSERT_NE(find(metrics, "gpu_load_percent.gpu1"), nullptr);
  EXPECT_EQ(find(metrics, "gpu_memory_used_bytes.gpu1")->max, 300);
}

}  // namespace
}  // namespace headroom::monitoring
