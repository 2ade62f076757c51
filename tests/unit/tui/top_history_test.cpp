#include "tui/top_history.h"

#include "support/test_support.h"

namespace headroom::tui {
namespace {
using testing::ElementsAre;
using Value = std::optional<double>;

SystemSample with_cpu(std::optional<double> percent) {
  SystemSample sample;
  sample.cpu_percent = percent;
  return sample;
}

TEST(TopHistory, NewestIsLastAndAbsentStaysAbsent) {
  TopHistory history;
  for (const Value& value : {Value{10}, Value{}, Value{30}}) history.add(with_cpu(value));
  EXPECT_THAT(history.columns(Curve::cpu, 5, 1),
              ElementsAre(Value{}, Value{}, Value{10}, Value{}, Value{30}));
  EXPECT_THAT(history.columns(Curve::cpu, 2, 1), ElementsAre(Value{}, Value{30}));
  EXPECT_FALSE(history.has(Curve::gpu));
  EXPECT_TRUE(history.has(Curve::cpu));
  EXPECT_TRUE(history.columns(Curve::cpu, -1, 1).empty());
}

// A peak stays in its column when the next sample arrives.
TEST(TopHistory, ColumnsOfSeveralSamplesKeepTheirPeaks) {
  TopHistory history;
  for (const double value : {1, 9, 2, 3, 4}) history.add(with_cpu(value));
  EXPECT_THAT(history.columns(Curve::cpu, 3, 2), ElementsAre(Value{9}, Value{3}, Value{4}));
  history.add(with_cpu(5));
  EXPECT_THAT(history.columns(Curve::cpu, 3, 2), ElementsAre(Value{9}, Value{3}, Value{5}));
}

TEST(TopHistory, KeepsTheLastSamples) {
  TopHistory history;
  const auto most = static_cast<int>(TopHistory::kMost);
  for (int i = 0; i < most + 10; ++i) history.add(with_cpu(i % 100));
  const auto columns = history.columns(Curve::cpu, most + 10, 1);
  EXPECT_EQ(columns.front(), std::nullopt);
  EXPECT_EQ(columns[9], std::nullopt);
  EXPECT_EQ(columns[10], Value{10});
  EXPECT_EQ(columns.back(), Value{(most + 9) % 100});
}

}  // namespace
}  // namespace headroom::tui
