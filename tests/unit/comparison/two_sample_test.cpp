// Compares the statistics of headroom diff with tables and with their required error rates.
#include "comparison/two_sample.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <limits>
#include <random>
#include <string>
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

// -1, 0 or 1, as the interval is below, around or above 0.
int told_by(const Difference& found) { return found.low > 0 ? 1 : found.high < 0 ? -1 : 0; }

TEST(MiddleMean, LeavesOutAQuarterAtEachEnd) {
  EXPECT_DOUBLE_EQ(middle_mean(std::vector<double>{900, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(middle_mean(std::vector<double>{1, 2, 9}), 4);
  EXPECT_DOUBLE_EQ(middle_mean(std::vector<double>{5, 6, 7, 8, 100, -100, 5, 7}), 6.25);
}

TEST(Bootstrap, IntervalHoldsTheDifference) {
  const std::vector<double> a{27.5, 21.0, 19.0, 23.6, 17.0, 17.9};
  const std::vector<double> b{27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0};
  const Difference found = bootstrap(a, b, 0.95);
  EXPECT_NEAR(found.estimate, 23.075 - 20.375, 1e-9);
  EXPECT_LT(found.low, 0);
  EXPECT_GT(found.high, found.estimate);
  EXPECT_GT(found.p, 0.05);
  // A higher confidence has a wider interval, and the same values have the same one.
  EXPECT_LT(bootstrap(a, b, 0.99).low, found.low);
  EXPECT_EQ(bootstrap(a, b, 0.95).low, found.low);
  std::vector<double> far = b;
  for (double& value : far) value += 20;
  EXPECT_EQ(told_by(bootstrap(a, far, 0.95)), 1);
  EXPECT_EQ(told_by(bootstrap(far, a, 0.95)), -1);
  EXPECT_LT(bootstrap(a, far, 0.95).p, 0.05);
}

TEST(Bootstrap, EqualValuesAreNoChange) {
  const std::vector<double> same{3, 3, 3}, other{4, 4, 4};
  EXPECT_EQ(bootstrap(same, same, 0.95).p, 1);
  const Difference found = bootstrap(same, other, 0.95);
  EXPECT_EQ(found.low, 1);
  EXPECT_EQ(found.high, 1);
  EXPECT_EQ(found.p, 0);
}

// The speed that both runs of a pair share does not count.
TEST(BootstrapOfPairs, RemovesCommonPartOfPairs) {
  const std::vector<double> a{1, 5, 2, 9, 4}, b{1.3, 5.31, 2.29, 9.3, 4.3};
  const Difference found = bootstrap_of_pairs(a, b, 0.95);
  EXPECT_NEAR(found.estimate, 0.3, 1e-9);
  EXPECT_GT(found.low, 0.28);
  EXPECT_LT(bootstrap(a, b, 0.95).low, 0);
}

// Logarithms of the latency of runs on three machines: an idle one, one where one run in five meets another
// program, and one with two speeds.
class LatencyOfRuns {
 public:
  enum class Machine { idle, with_neighbours, two_speeds };
  explicit LatencyOfRuns(Machine machine) : machine_(machine) {}

  std::vector<double> runs(std::size_t count, double slower = 0) {
    std::vector<double> values(count);
    for (double& value : values) {
      value = slower + 0.01 * normal_(random_);
      const double chance = std::uniform_real_distribution<double>()(random_);
      if (machine_ == Machine::with_neighbours && chance < 0.2) value += 0.3;
      if (machine_ == Machine::two_speeds && chance < 0.5) value += 0.25;
    }
    return values;
  }

 private:
  Machine machine_;
  std::mt19937 random_{7};
  std::normal_distribution<double> normal_;
};

// The shares of trials with a false alarm, and with a change of 3 % found, at a confidence of 98.75 %. Each
// group is new, so no two trials share a run. benchmarks/results/diff_power.md quotes this output.
TEST(Bootstrap, KeepsFalseAlarmRateAndFindsThreePercent) {
  if (test::kIsSlowBuild) GTEST_SKIP() << test::kOnlyInPlainBuilds;
  using Machine = LatencyOfRuns::Machine;
  constexpr int kTrials = 400;
  constexpr double kConfidence = 0.9875, kSlower = 0.03;
  struct Share {
    int alarms = 0, found = 0;
    double found_percent() const { return 100.0 * found / kTrials; }
    double alarm_percent() const { return 100.0 * alarms / kTrials; }
  };
  std::cout << "machine, runs, test: false alarms, 3 % found\n";
  for (const auto& [machine, name] : {std::pair{Machine::idle, "idle"},
                                      {Machine::with_neighbours, "neighbours"},
                                      {Machine::two_speeds, "two speeds"}})
    for (const auto& [before, after] : {std::pair<std::size_t, std::size_t>{3, 3}, {5, 5}, {8, 8}, {10, 3}}) {
      LatencyOfRuns latency(machine);
      Share of_groups, of_pairs;
      for (int i = 0; i < kTrials; ++i) {
        const std::vector<double> a = latency.runs(before), b = latency.runs(after),
                                  slower = latency.runs(after, kSlower);
        of_groups.alarms += std::abs(told_by(bootstrap(a, b, kConfidence)));
        of_groups.found += told_by(bootstrap(a, slower, kConfidence)) > 0;
        if (before != after) continue;
        of_pairs.alarms += std::abs(told_by(bootstrap_of_pairs(a, b, kConfidence)));
        of_pairs.found += told_by(bootstrap_of_pairs(a, slower, kConfidence)) > 0;
      }
      for (const auto& [share, test] : {std::pair{&of_groups, "groups"}, {&of_pairs, "pairs"}}) {
        if (before != after && share == &of_pairs) continue;
        const std::string label = fmt::format("{}, {} and {}, {}", name, before, after, test);
        std::cout << fmt::format("{}: {:.1f} %, {:.0f} %\n", label, share->alarm_percent(),
                                 share->found_percent());
        EXPECT_LE(share->alarm_percent(), 7) << label;
        if (before != 8 || machine == Machine::two_speeds) continue;
        // A t-test of the means finds 4 % beside neighbours.
        const double least = machine != Machine::idle ? 8 : share == &of_pairs ? 75 : 85;
        if (machine == Machine::idle || share == &of_groups) {
          EXPECT_GE(share->found_percent(), least) << label;
        }
      }
    }
}

TEST(BetweenMedians, IgnoresOneOutlier) {
  const std::vector<double> a{1.00, 1.01, 0.99, 1.00, 9.00}, b{1.50, 1.51, 1.49, 1.50, 1.50};
  const Difference found = between_medians(a, b, 0.001, 0.95);
  EXPECT_NEAR(found.estimate, 0.5, 1e-9);
  EXPECT_GT(found.low, 0.45);
  EXPECT_LT(between_medians(a, b, 1.0, 0.95).low, 0);  // with a larger allowance
}

// Groups with equal medians: the false alarm rate holds with as few as three values per side, and for groups
// of unequal size and spread, of which a common spread had 45 % of false alarms.
TEST(BetweenMedians, KeepsFalseAlarmRate) {
  if (test::kIsSlowBuild) GTEST_SKIP() << test::kOnlyInPlainBuilds;
  struct Groups {
    std::size_t before, after;
    double spread_before, least_spread;
  };
  std::vector<Groups> all;
  for (const std::size_t runs : {3, 4, 5, 10, 20}) all.push_back({runs, runs, 1, 0.01});
  for (const double spread : {0.2, 1.0})
    for (const auto& [before, after] : {std::pair{10, 3}, {20, 3}, {8, 8}, {3, 3}, {10, 10}})
      all.push_back({static_cast<std::size_t>(before), static_cast<std::size_t>(after), spread, 0.0001});
  constexpr int kTrials = 3000;
  for (const Groups& groups : all) {
    std::mt19937 random(11);
    std::normal_distribution<double> normal;
    int alarms = 0;
    for (int i = 0; i < kTrials; ++i) {
      std::vector<double> a(groups.before), b(groups.after);
      for (double& value : a) value = groups.spread_before * normal(random);
      for (double& value : b) value = normal(random);
      alarms += std::abs(told_by(between_medians(a, b, groups.least_spread, 0.985)));
    }
    EXPECT_LT(alarms, kTrials * 25 / 1000)
        << groups.before << " " << groups.after << " " << groups.spread_before;
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
      alarms += std::abs(
          told_by(welch_of_series(batches(alike, samples, 0), batches(alike, samples, more), confidence)));
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

TEST(Superiority, CountsPairsAndHalvesTies) {
  const std::vector<std::int64_t> a{1, 2, 3}, b{2, 3, 4};
  EXPECT_DOUBLE_EQ(*superiority(a, b), (6 + 0.5 * 2) / 9);
  EXPECT_DOUBLE_EQ(*superiority(a, a), 0.5);
  EXPECT_DOUBLE_EQ(*superiority(b, a), 1 - *superiority(a, b));
  EXPECT_FALSE(superiority({}, a));
}

// Logs of several sessions in sequence: a time that goes back starts a session and is not a step.
constexpr std::int64_t kSecond = 1'000'000'000;

SystemSample sample_at(std::int64_t second, std::optional<std::int64_t> unix_second = std::nullopt) {
  SystemSample sample;
  sample.time = {second * kSecond};
  if (unix_second) sample.unix_time = Nanoseconds{*unix_second * kSecond};
  sample.ram_used = mebibytes(100);
  return sample;
}

TEST(SessionClock, StartsSessionWhenTimeGoesBack) {
  monitoring::SessionClock clock;
  EXPECT_TRUE(clock.add(sample_at(5)).begins_session);
  EXPECT_EQ(clock.add(sample_at(8)).since, Nanoseconds{3 * kSecond});
  const monitoring::SessionClock::Step step = clock.add(sample_at(0));
  EXPECT_TRUE(step.begins_session);
  EXPECT_EQ(step.since, Nanoseconds{});
  EXPECT_EQ(clock.add(sample_at(2)).since, Nanoseconds{2 * kSecond});
  EXPECT_EQ(clock.sessions(), 2);
  EXPECT_EQ(clock.elapsed(), Nanoseconds{5 * kSecond});
  EXPECT_EQ(clock.watched(), Nanoseconds{5 * kSecond});
}

TEST(SessionClock, WallClockGivesTimeBetweenSessions) {
  monitoring::SessionClock clock;
  clock.add(sample_at(0, 1000));
  clock.add(sample_at(10, 5000));  // the wall clock was set: within a session, the log's time counts
  clock.add(sample_at(0, 5060));
  EXPECT_EQ(clock.elapsed(), Nanoseconds{70 * kSecond});
  EXPECT_EQ(clock.watched(), Nanoseconds{10 * kSecond});
  clock.add(sample_at(-1, 10));  // set back
  EXPECT_EQ(clock.sessions(), 3);
  EXPECT_EQ(clock.elapsed(), Nanoseconds{70 * kSecond});
}

TEST(SessionClock, SumsDoNotOverflow) {
  monitoring::SessionClock clock;
  constexpr std::int64_t kFar = std::int64_t{1} << 59;
  for (int i = 0; i < 100; ++i) {
    SystemSample sample;
    sample.time = {i % 2 == 0 ? -kFar : kFar};
    sample.unix_time = Nanoseconds{i % 2 == 0 ? kFar : -kFar};
    clock.add(sample);
  }
  EXPECT_GT(clock.elapsed().count, 0);
  EXPECT_GE(clock.elapsed(), clock.watched());
}

// `sessions` sessions of 300 samples each. The figure grows by `rise` from the first to the last sample of
// all.
LogFigures series_log_of(int sessions, double rise, std::mt19937& random) {
  std::normal_distribution<double> noise(0, 1 << 20);
  LogFigures log;
  for (int session = 0; session < sessions; ++session)
    for (int i = 0; i < 300; ++i) {
      SystemSample sample = sample_at(i, 1'700'000'000 + 100'000 * session + i);
      const double part = (session * 300 + i) / (300.0 * sessions);
      sample.ram_used = Bytes{(1 << 30) + std::llround(noise(random) + rise * part)};
      log.add(sample);
    }
  return log;
}

TEST(LogFigures, HasNoNegativeStep) {
  std::mt19937 random(1);
  const LogFigures log = series_log_of(3, 0, random);
  EXPECT_EQ(log.samples(), 900);
  EXPECT_EQ(log.duration(), Nanoseconds{200'299 * kSecond});
  const auto& points = log.curves().find("ram_used_bytes")->second.points();
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_GE(points[i].end, points[i].begin);
    if (i > 0) {
      EXPECT_GE(points[i].begin, points[i - 1].end);
    }
  }
  EXPECT_EQ(points.back().end, Nanoseconds{3 * 299 * kSecond}) << "without what passed between them";
}

}  // namespace
}  // namespace headroom::comparison
