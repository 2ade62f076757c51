#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "monitoring/sample_metrics.h"
#include "sources/metric_source.h"
#include "sources/system_sampler.h"
#include "support/test_support.h"

namespace headroom::monitoring {
namespace {

const MetricSummary* find(const std::vector<MetricSummary>& metrics, std::string_view name) {
  const auto found = std::ranges::find(metrics, name, &MetricSummary::name);
  return found == metrics.end() ? nullptr : &*found;
}

std::vector<MetricSummary> summarise_metrics(const std::vector<SystemSample>& samples) {
  SeriesAccumulator metrics;
  for (const SystemSample& sample : samples) metrics.add(sample);
  const auto all = metrics.summaries();
  return {all.begin(), all.end()};
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

const SeriesSummary* find_series(const std::vector<SeriesSummary>& all, std::string_view name) {
  const auto at = std::ranges::find_if(all, [&](const SeriesSummary& one) { return one.name == name; });
  return at == all.end() ? nullptr : &*at;
}

TEST(SeriesSummary, ComputesSlopesAndExtremes) {
  SeriesAccumulator series;
  for (int i = 0; i < 100; ++i) {
    SystemSample sample;
    sample.time = {1'000'000'000LL * (1000 + i)};
    sample.ram_used = mebibytes(100 + 2 * i);
    if (i % 2 == 1) sample.temperatures_celsius = {{"cpu", 50}};  // missing in every other sample
    sample.swap_used = mebibytes(i % 2);
    series.add(sample);
  }
  const auto all = series.summaries();
  const SeriesSummary* used = find_series(all, "ram_used_bytes");
  ASSERT_NE(used, nullptr);
  EXPECT_EQ(used->n, 100);
  EXPECT_EQ(used->min, 100 << 20);
  EXPECT_EQ(used->max, 298 << 20);
  EXPECT_NEAR(used->mean, 199 << 20, 1);
  EXPECT_NEAR(used->slope_per_second.value_or(0), 2 << 20, 1e-3);
  EXPECT_EQ(find_series(all, "temperature_celsius.cpu")->n, 50);
  EXPECT_EQ(find_series(all, "temperature_celsius.cpu")->slope_per_second, 0);
  EXPECT_LT(std::abs(find_series(all, "swap_used_bytes")->slope_per_second.value_or(1e9)), 1000);
  EXPECT_EQ(find_series(all, "nvmap_used_bytes"), nullptr);
}

TEST(SeriesSummary, TwoSamplesHaveNoSlope) {
  SeriesAccumulator series;
  for (int i = 0; i < 2; ++i) {
    SystemSample sample;
    sample.time = {i};
    sample.cpu_percent = i;
    series.add(sample);
  }
  EXPECT_FALSE(series.summaries()[0].slope_per_second);
}

TEST(SeriesCurve, KeepsShortPeakOfLongLog) {
  SeriesCurve curve;
  for (int i = 0; i < 100'000; ++i) curve.add({i}, i == 77'777 ? 1000 : 1);
  EXPECT_LE(curve.points().size(), SeriesCurve::kMostPoints);
  EXPECT_GE(curve.points().size(), SeriesCurve::kMostPoints / 2 - 1);
  double highest = 0;
  std::int64_t n = 0;
  for (const auto& point : curve.points()) {
    highest = std::max(highest, point.max);
    n += point.n;
    EXPECT_GE(point.mean, point.min);
    EXPECT_LE(point.mean, point.max);
  }
  EXPECT_EQ(highest, 1000);
  EXPECT_EQ(n, 100'000);
  EXPECT_EQ(curve.points().front().begin, Nanoseconds{0});
  EXPECT_EQ(curve.points().back().end, Nanoseconds{99'999});
}

Bytes sum_of(const MemoryStack& stack) {
  return stack.free + stack.cache + stack.processes + stack.gpu + stack.system;
}

TEST(MemoryStack, AddsUpForJetsonTx2) {
  const auto path = test::shared_data("procfs/meminfo_nvmap_samples.txt");
  if (!path) GTEST_SKIP() << test::absent_message("procfs/meminfo_nvmap_samples.txt");
  const std::string text = test::read_text(*path);
  SystemSample sample;
  sources::read_meminfo(std::string_view(text).substr(0, text.find("\n==", 10))).fill(sample);
  const auto stack = memory_stack_of(sample);
  ASSERT_TRUE(stack);
  EXPECT_EQ(sum_of(*stack), kibibytes(8038788));
  EXPECT_EQ(stack->free, kibibytes(4851052));
  EXPECT_EQ(stack->processes, kibibytes(976304 + 108680));
  EXPECT_EQ(stack->gpu, kibibytes(805068));
  EXPECT_EQ(stack->cache, kibibytes(38972 + 879052 - 108680 + 68672));
  EXPECT_GT(stack->system, Bytes{});
}

TEST(MemoryStack, AddsUpForInconsistentFigures) {
  SystemSample sample;
  sample.ram_total = mebibytes(100);
  sample.ram_free = mebibytes(60);
  sample.ram_buffers = mebibytes(1);
  sample.ram_cached = mebibytes(5);
  sample.ram_shared = mebibytes(9);
  EXPECT_FALSE(memory_stack_of(sample));
  sample.ram_anonymous = mebibytes(30);
  sample.nvmap_used = mebibytes(20);
  const auto stack = memory_stack_of(sample);
  ASSERT_TRUE(stack);
  EXPECT_EQ(stack->gpu, mebibytes(1));
  EXPECT_EQ(sum_of(*stack), mebibytes(100));
}

}  // namespace
}  // namespace headroom::monitoring
