// Logs of several sessions in sequence: a time that goes back starts a session and is not a step.
#include "comparison/series_comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace headroom::comparison {
namespace {

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

TEST(LogFigures, LeakOverSeveralSessionsIsATrend) {
  std::mt19937 random(2);
  const SeriesChange leak =
      compare_series(series_log_of(3, 0, random), series_log_of(3, 1 << 30, random)).front();
  EXPECT_TRUE(leak.differs);
  EXPECT_TRUE(leak.is_of_trend);
  EXPECT_NEAR(leak.rise_after, 1 << 30, 1 << 26);
  const SeriesChange none = compare_series(series_log_of(3, 0, random), series_log_of(1, 0, random)).front();
  EXPECT_FALSE(none.differs);
  EXPECT_EQ(none.doubt, SeriesDoubt::none);
}

}  // namespace
}  // namespace headroom::comparison
