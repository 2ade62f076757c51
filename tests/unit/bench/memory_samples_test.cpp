#include "bench/conductor/memory_samples.h"

#include <gtest/gtest.h>

namespace headroom::bench {
namespace {

std::unique_ptr<limits::MemoryLimit> limit_by(const char* mechanism) {
  std::string note;
  auto limit = limits::make_memory_limit("test", mebibytes(50), mechanism, note);
  return limit ? std::move(*limit) : nullptr;
}

ProcessMemory sample_of(Bytes resident, Bytes reserved) {
  ProcessMemory sample;
  sample.rss = resident;
  sample.data = reserved;
  return sample;
}

// Libraries and shared memory are resident, but RLIMIT_DATA does not count them.
TEST(MemorySamples, CountsViolationsInTheLimitsOwnFigure) {
  const auto rlimit = limit_by("rlimit"), watchdog = limit_by("watchdog");
  ASSERT_TRUE(rlimit && watchdog);
  MemorySamples by_reservation, by_watchdog;
  by_reservation.add({}, sample_of(mebibytes(57), mebibytes(30)), true, rlimit.get());
  EXPECT_EQ(by_reservation.violations, 0);
  by_reservation.add({}, sample_of(mebibytes(40), mebibytes(51)), true, rlimit.get());
  EXPECT_EQ(by_reservation.violations, 1);
  by_watchdog.add({}, sample_of(mebibytes(57), mebibytes(30)), true, watchdog.get());
  by_watchdog.add({}, sample_of(mebibytes(40), mebibytes(51)), true, watchdog.get());
  EXPECT_EQ(by_watchdog.violations, 1);
}

TEST(MemorySamples, SeparatesThePssOfLoadAndRun) {
  MemorySamples samples;
  samples.add_share(mebibytes(90), false);
  samples.add_share(mebibytes(60), true);
  EXPECT_EQ(samples.pss_peak, mebibytes(90));
  EXPECT_EQ(samples.pss_run_peak, mebibytes(60));
}

}  // namespace
}  // namespace headroom::bench
