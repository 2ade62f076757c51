#include "monitoring/series_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "monitoring/metric_walk.h"

namespace headroom::monitoring {
namespace {

const SeriesSummary* find_series(const std::vector<SeriesSummary>& all, std::string_view name) {
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const SeriesSummary& one) { return one.name == name; });
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

}  // namespace
}  // namespace headroom::monitoring
