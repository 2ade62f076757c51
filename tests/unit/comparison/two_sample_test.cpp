// Compares the statistics of headroom diff with tables and with their required error rates.
#include "comparison/two_sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "comparison/series_comparison.h"
#include "support/test_support.h"

namespace headroom::comparison {
namespace {

// Tables of Student's t, two-sided 5 % and 1 %.
TEST(Student, MatchesTables) {
  EXPECT_NEAR(student_quantile(0.975, 1), 12.706, 0.001);
  EXPECT_NEAR(student_quantile(0.975, 4), 2.776, 0.001);
  EXPECT_NEAR(student_quantile(0.995, 10), 3.169, 0.001);
  EXPECT_NEAR(student_quantile(0.975, 100), 1.984, 0.001);
  EXPECT_NEAR(student_quantile(0.975, std::numeric_limits<double>::infinity()), 1.960, 0.001);
  EXPECT_NEAR(student_quantile(0.025, 4), -2.776, 0.001);
  EXPECT_NEAR(student_cdf(0, 3), 0.5, 1e-12);
  EXPECT_NEAR(student_cdf(1, 1), 0.75, 1e-12);  // Cauchy distribution
}

// R: t.test(c(27.5,21.0,19.0,23.6,17.0,17.9), c(27.1,22.0,20.8,23.4,23.4,23.5,25.8,22.0)) has
// t = -1.4908, df = 7.0117, p = 0.1796.
TEST(Welch, AgreesWithAWorkedExample) {
  const std::vector<double> a{27.5, 21.0, 19.0, 23.6, 17.0, 17.9};
  const std::vector<double> b{27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0};
  const Difference found = welch(a, b, 0.95);
  EXPECT_NEAR(found.estimate, 23.5 - 21.0, 1e-9);
  EXPECT_GT(found.p, 0.15);
  EXPECT_LT(found.p, 0.21);
  EXPECT_LT(found.low, 0);
  EXPECT_GT(found.high, 2.5);
}

// Equal groups differ as often as the confidence level allows.
TEST(Welch, KeepsFalseAlarmRate) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  int alarms = 0;
  constexpr int kTrials = 4000;
  for (int i = 0; i < kTrials; ++i) {
    std::vector<double> a(5), b(5);
    for (double& value : a) value = normal(random);
    for (double& value : b) value = normal(random);
    const Difference found = welch(a, b, 0.95);
    if (found.low > 0 || found.high < 0) ++alarms;
  }
  EXPECT_LT(alarms, kTrials * 6 / 100);
  EXPECT_GT(alarms, kTrials * 3 / 100);
}

TEST(Welch, EqualValuesAreNoChange) {
  const std::vector<double> same{3, 3, 3}, other{4, 4, 4};
  EXPECT_EQ(welch(same, same, 0.95).p, 1);
  const Difference found = welch(same, other, 0.95);
  EXPECT_EQ(found.low, 1);
  EXPECT_EQ(found.high, 1);
}

// The speed that both runs of a pair share does not count.
TEST(Paired, RemovesCommonPartOfPairs) {
  const std::vector<double> a{1, 5, 2, 9, 4}, b{1.3, 5.31, 2.29, 9.3, 4.3};
  const Difference found = paired(a, b, 0.95);
  EXPECT_NEAR(found.estimate, 0.3, 1e-9);
  EXPECT_GT(found.low, 0.28);
  EXPECT_LT(welch(a, b, 0.95).low, 0);
}

// Calculated by hand. One of eight differences is negative and has the first rank. So 2 of 256 arrangements
// are as extreme on its side, and p = 4/256. P(sum ≤ 3) = 5/256 and P(sum ≤ 4) = 7/256, so the 95 % interval
// excludes three of the 36 averages at each end. The next is 0.8 (after -0.4, 0.2, 0.35) and 6.6 (after 7.7,
// 7.15, 6.6).
TEST(SignedRanks, AgreesWithAWorkedExample) {
  const std::vector<double> a(8, 0), b{1.1, 2.2, 3.3, -0.4, 5.5, 6.6, 7.7, 0.8};
  const Difference found = signed_ranks(a, b, 0.95);
  EXPECT_NEAR(found.p, 0.015625, 1e-9);
  EXPECT_NEAR(found.low, 0.8, 1e-9);
  EXPECT_NEAR(found.high, 6.6, 1e-9);
  EXPECT_TRUE(ranks_can_tell(8, 0.99));
  EXPECT_FALSE(ranks_can_tell(7, 0.99));
}

// Five of ten pairs do not differ, so 15 of the 55 averages are 0, and P(sum ≤ 15) = 119/1024. Wilcoxon's
// test without these pairs has p = 2/32. The interval of 55 averages ends at 0 and cannot reach that.
TEST(SignedRanks, EqualPairsAreNoEvidence) {
  const std::vector<double> a(10, 0), b{0, 0, 0, 0, 0, 1, 2, 3, 4, 5};
  const Difference more = signed_ranks(a, b, 0.95), less = signed_ranks(b, a, 0.95);
  EXPECT_NEAR(more.p, 238.0 / 1024, 1e-9);
  EXPECT_NEAR(less.p, more.p, 1e-12);
  EXPECT_EQ(more.low, 0);
  EXPECT_EQ(less.high, 0);
  EXPECT_EQ(signed_ranks(a, a, 0.95).p, 1);
  // One outlier: the interval reaches the mean, beyond 0, whatever the ranks are.
  const std::vector<double> one_far_off{1, 2, 3, 4, 5, 6, 7, 8, 9, -100};
  EXPECT_LT(signed_ranks(a, one_far_off, 0.8).low, 0);
  EXPECT_EQ(signed_ranks(a, one_far_off, 0.8).p, 1);
}

// With and without ties, with positive, negative and zero differences.
TEST(SignedRanks, PAndIntervalAgree) {
  std::mt19937 random(29);
  int told = 0;
  for (int i = 0; i < test::repetitions(1000); ++i) {
    const std::size_t pairs = 8 + random() % 13;
    const int lowest = -static_cast<int>(random() % 4);
    std::vector<double> a(pairs, 0), b(pairs);
    for (double& value : b) value = lowest + static_cast<int>(random() % 6);
    for (const double confidence : {0.9, 0.95, 0.9875}) {
      if (!ranks_can_tell(pairs, confidence)) continue;
      const Difference found = signed_ranks(a, b, confidence);
      const bool holds_none = found.low > 0 || found.high < 0;
      EXPECT_EQ(found.p <= 1 - confidence, holds_none) << pairs << " " << confidence << " " << found.p;
      told += holds_none ? 1 : 0;
    }
  }
  EXPECT_GT(told, 0);
}

TEST(SignedRanks, KeepFalseAlarmRateAndIgnoreNeighbours) {
  if (test::kIsSlowBuild) GTEST_SKIP() << test::kOnlyInPlainBuilds;
  std::mt19937 random(19);
  std::normal_distribution<double> normal;
  std::bernoulli_distribution meets_a_neighbour(0.2);
  constexpr int kTrials = 1000;
  for (const std::size_t pairs : {8, 20, 60}) {
    int alarms = 0, found = 0, found_by_t = 0;
    for (int i = 0; i < kTrials; ++i) {
      std::vector<double> a, b, slower;
      for (std::size_t k = 0; k < pairs; ++k) {
        a.push_back(0.01 * normal(random) + (meets_a_neighbour(random) ? 0.3 : 0));
        b.push_back(0.01 * normal(random) + (meets_a_neighbour(random) ? 0.3 : 0));
        slower.push_back(b.back() + 0.03);
      }
      const auto tells = [](const Difference& one) { return one.low > 0 || one.high < 0 ? 1 : 0; };
      alarms += tells(signed_ranks(a, b, 0.9875));
      found += tells(signed_ranks(a, slower, 0.9875));
      found_by_t += tells(paired(a, slower, 0.9875));
    }
    EXPECT_LE(alarms, kTrials * 18 / 1000) << pairs;
    EXPECT_GE(found, found_by_t) << pairs;
  }
}

TEST(BetweenMedians, IgnoresOneOutlier) {
  const std::vector<double> a{1.00, 1.01, 0.99, 1.00, 9.00}, b{1.50, 1.51, 1.49, 1.50, 1.50};
  const Difference found = between_medians(a, b, 0.001, 0.95);
  EXPECT_NEAR(found.estimate, 0.5, 1e-9);
  EXPECT_GT(found.low, 0.45);
  EXPECT_LT(between_medians(a, b, 1.0, 0.95).low, 0);  // with a larger allowance
}

// Values whose spread exceeds the allowance: the false alarm rate holds with as few as three values per
// side.
TEST(BetweenMedians, KeepsFalseAlarmRate) {
  if (test::kIsSlowBuild) GTEST_SKIP() << test::kOnlyInPlainBuilds;
  constexpr int kTrials = 4000;
  for (const std::size_t runs : {3, 4, 5, 10, 20}) {
    std::mt19937 random(11);
    std::normal_distribution<double> normal;
    int alarms = 0;
    for (int i = 0; i < kTrials; ++i) {
      std::vector<double> a(runs), b(runs);
      for (double& value : a) value = normal(random);
      for (double& value : b) value = normal(random);
      const Difference found = between_medians(a, b, 0.01, 0.985);
      if (found.low > 0 || found.high < 0) ++alarms;
    }
    EXPECT_LT(alarms, kTrials * 25 / 1000) << runs;
  }
}

double false_alarms(std::size_t runs_a, std::size_t runs_b, double spread_a,
                    Difference (*compare)(const std::vector<double>&, const std::vector<double>&)) {
  std::mt19937 random(13);
  std::normal_distribution<double> normal;
  int alarms = 0;
  constexpr int kTrials = 2000;
  for (int i = 0; i < kTrials; ++i) {
    std::vector<double> a(runs_a), b(runs_b);
    for (double& value : a) value = spread_a * normal(random);
    for (double& value : b) value = normal(random);
    const Difference found = compare(a, b);
    if (found.low > 0 || found.high < 0) ++alarms;
  }
  return static_cast<double>(alarms) / kTrials;
}

// Groups of unequal size and spread: a common spread had 45 % of false alarms.
TEST(BetweenMedians, UsesSpreadOfEachGroup) {
  if (test::kIsSlowBuild) GTEST_SKIP() << test::kOnlyInPlainBuilds;
  for (const auto& [a, b] : {std::pair<std::size_t, std::size_t>{10, 3}, {20, 3}, {8, 8}, {3, 3}, {10, 10}})
    for (const double spread : {0.2, 1.0})
      EXPECT_LT(false_alarms(a, b, spread,
                             [](const std::vector<double>& x, const std::vector<double>& y) {
                               return between_medians(x, y, 0.0001, 0.985);
                             }),
                0.025)
          << a << " " << b << " " << spread;
}

TEST(Pooled, KeepsFalseAlarmRateWithSingleValue) {
  if (test::kIsSlowBuild) GTEST_SKIP() << test::kOnlyInPlainBuilds;
  for (const auto& [a, b] : {std::pair<std::size_t, std::size_t>{10, 1}, {3, 1}, {10, 3}}) {
    const double share = false_alarms(
        a, b, 1,
        [](const std::vector<double>& x, const std::vector<double>& y) { return pooled(x, y, 0.95); });
    EXPECT_LT(share, 0.065) << a << " " << b;
    EXPECT_GT(share, 0.035) << a << " " << b;
  }
}

// 20 means of correlated samples, from noise to a series that moves as slowly as a machine's memory. At a
// rate of 0.2 %, Welch's test alone has 25 and 42 % of false alarms for the last two.
TEST(WelchOfSeries, AccountsForCorrelatedNeighbours) {
  if (test::kIsSlowBuild) GTEST_SKIP() << test::kOnlyInPlainBuilds;
  constexpr int kTrials = 500, kBatches = 20;
  std::mt19937 random(17);
  std::normal_distribution<double> normal;
  const auto batches = [&](double alike, int samples, double more) {
    std::vector<double> means(kBatches);
    double value = normal(random);
    for (int i = 0; i < samples; ++i) {
      means[static_cast<std::size_t>(i * kBatches / samples)] += (value + more) * kBatches / samples;
      value = alike * value + std::sqrt(1 - alike * alike) * normal(random);
    }
    return means;
  };
  const auto told = [&](double alike, int samples, double more, double confidence) {
    int alarms = 0;
    for (int i = 0; i < kTrials; ++i) {
      const Difference found =
          welch_of_series(batches(alike, samples, 0), batches(alike, samples, more), confidence);
      if (found.low > 0 || found.high < 0) ++alarms;
    }
    return static_cast<double>(alarms) / kTrials;
  };
  for (const auto& [alike, samples] : {std::pair{0.0, 60}, {0.5, 60}, {0.9, 60}, {0.9, 300}, {0.99, 300}}) {
    EXPECT_LT(told(alike, samples, 0, 0.95), 0.085) << alike << " " << samples;
    EXPECT_LT(told(alike, samples, 0, 0.998), 0.015) << alike << " " << samples;
  }
  EXPECT_GT(told(0.5, 300, 0.8, 0.998), 0.7);
  const std::vector<double> same(10, 3.0), other(10, 4.0);
  EXPECT_EQ(welch_of_series(same, same, 0.95).p, 1);
  EXPECT_EQ(welch_of_series(same, other, 0.95).low, 1);
}

// The samples of a log: one figure, once a second.
LogFigures log_of(const std::vector<double>& values) {
  LogFigures log;
  for (std::size_t i = 0; i < values.size(); ++i) {
    SystemSample sample;
    sample.time = {static_cast<std::int64_t>(i) * 1'000'000'000};
    sample.ram_used = Bytes{std::llround(values[i])};
    log.add(sample);
  }
  return log;
}

SeriesChange compared(const std::vector<double>& a, const std::vector<double>& b) {
  return compare_series(log_of(a), log_of(b)).front();
}

constexpr double kGiB = 1 << 30, kMiB = 1 << 20;

class CompareSeries : public testing::Test {
 protected:
  // 1 GiB plus noise. From the middle on, `step` more; from the first to the last sample, `rise` more.
  std::vector<double> values(double rise, double step) {
    std::vector<double> made;
    for (int i = 0; i < 600; ++i)
      made.push_back(kGiB + kMiB * normal_(random_) + rise * i / 600 + (i < 300 ? 0 : step));
    return made;
  }
  std::mt19937 random_{5};
  std::normal_distribution<double> normal_;
};

TEST_F(CompareSeries, LeakIsATrendThatDiffers) {
  const SeriesChange leak = compared(values(0, 0), values(kGiB, 0));
  EXPECT_TRUE(leak.differs);
  EXPECT_TRUE(leak.is_of_trend);
  EXPECT_NEAR(leak.rise_after, kGiB, 0.06 * kGiB);
  EXPECT_NEAR(leak.rise_before, 0, 5 * kMiB);
  EXPECT_EQ(leak.low, leak.change());
  EXPECT_FALSE(compared(values(0, 0), values(0, 0)).differs);
  EXPECT_EQ(compared(values(0, 0), values(0, 0)).doubt, SeriesDoubt::none);
}

TEST_F(CompareSeries, UncertainComparisonIsMarkedAsDoubtful) {
  const SeriesChange step = compared(values(0, 0), values(0, 900 * kMiB));
  EXPECT_FALSE(step.differs);
  EXPECT_EQ(step.doubt, SeriesDoubt::slow);
  // The interval is not wider than the range of the logs.
  EXPECT_GT(step.low, -0.1 * kGiB);
  EXPECT_LT(step.high, kGiB);
  const SeriesChange both = compared(values(kGiB, 0), values(kGiB, 0));
  EXPECT_FALSE(both.differs);
  EXPECT_NE(both.doubt, SeriesDoubt::none);
  // A difference within 2 % is never a change, however slowly the series moves.
  EXPECT_EQ(compared(values(0, 0), values(0, 10 * kMiB)).doubt, SeriesDoubt::none);
  EXPECT_EQ(compared(values(0, 0), values(10 * kMiB, 0)).doubt, SeriesDoubt::none);
}

TEST_F(CompareSeries, DistantSeriesDifferHoweverSlowlyTheyMove) {
  std::vector<double> far = values(0, 20 * kMiB);
  for (double& value : far) value += kGiB;
  EXPECT_TRUE(compared(values(0, 20 * kMiB), far).differs);
}

// From noise to a random walk: hardly any pair of equal series is reported as changed.
TEST_F(CompareSeries, SlowSeriesAreNotReportedAsChanged) {
  if (test::kIsSlowBuild) GTEST_SKIP() << test::kOnlyInPlainBuilds;
  constexpr int kTrials = 300;
  for (const double alike : {0.0, 0.9, 0.99, 0.999, 1.0}) {
    int alarms = 0, doubts = 0;
    const auto walk = [&] {
      std::vector<double> made;
      double value = alike < 1 ? normal_(random_) : 0;
      for (int i = 0; i < 300; ++i) {
        made.push_back(kGiB * (1 + 0.2 * value));
        value = alike < 1 ? alike * value + std::sqrt(1 - alike * alike) * normal_(random_)
                          : value + normal_(random_) / 17;
      }
      return made;
    };
    for (int i = 0; i < kTrials; ++i) {
      const SeriesChange found = compared(walk(), walk());
      alarms += found.differs ? 1 : 0;
      doubts += found.doubt != SeriesDoubt::none ? 1 : 0;
    }
    EXPECT_LE(alarms, kTrials * 5 / 100) << alike;
    if (alike == 0) {
      EXPECT_LE(doubts, kTrials * 2 / 100);
    }
    if (alike >= 0.99) {
      EXPECT_GE(doubts, kTrials * 80 / 100) << alike;
    }
  }
}

TEST(Wider, PicksWiderInterval) {
  const Difference near{1, 0.5, 1.5, 0.01}, far{1, -1, 3, 0.4};
  EXPECT_EQ(wider(near, far).p, 0.4);
  EXPECT_EQ(wider(far, near).p, 0.4);
}

TEST(LogMeanError, AccountsForCorrelatedBlocks) {
  std::mt19937 random(3);
  std::uniform_int_distribution<std::int64_t> spread(1000, 1100);
  std::vector<std::int64_t> alone, alike;
  for (int i = 0; i < 400; ++i) alone.push_back(spread(random));
  for (int i = 0; i < 400; ++i) alike.push_back(i % 40 == 0 ? spread(random) : alike.back());
  EXPECT_NEAR(log_mean_error(alone), 29.0 / 1050 / 20, 0.0006);  // 400 values of 1050 ± 29
  EXPECT_GT(log_mean_error(alike), 2 * log_mean_error(alone));
  EXPECT_EQ(log_mean_error(std::vector<std::int64_t>{5, 6}), 0);
}

TEST(Superiority, CountsPairsAndHalvesTies) {
  const std::vector<std::int64_t> a{1, 2, 3}, b{2, 3, 4};
  EXPECT_DOUBLE_EQ(*superiority(a, b), (6 + 0.5 * 2) / 9);
  EXPECT_DOUBLE_EQ(*superiority(a, a), 0.5);
  EXPECT_DOUBLE_EQ(*superiority(b, a), 1 - *superiority(a, b));
  EXPECT_FALSE(superiority({}, a));
}

// Blocks of similar frames carry less information than as many independent frames.
TEST(LogQuantileError, AccountsForCorrelatedNeighbours) {
  std::mt19937 random(3);
  std::uniform_int_distribution<std::int64_t> spread(1000, 1100);
  std::vector<std::int64_t> alone, alike;
  for (int i = 0; i < 400; ++i) alone.push_back(spread(random));
  for (int i = 0; i < 400; ++i) alike.push_back(i % 40 == 0 ? spread(random) : alike.back());
  EXPECT_GT(log_quantile_error(alike, 0.5), 2 * log_quantile_error(alone, 0.5));
  EXPECT_EQ(log_quantile_error(alone, 0.5), log_quantile_error(alone, 0.5));
  EXPECT_EQ(log_quantile_error(std::vector<std::int64_t>{5}, 0.5), 0);
  EXPECT_EQ(log_quantile_error(std::vector<std::int64_t>{0, 0, 0}, 0.5), 0);
}

}  // namespace
}  // namespace headroom::comparison
