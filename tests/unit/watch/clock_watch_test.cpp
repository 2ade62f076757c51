#include "watch/clock_watch.h"

#include "support/test_support.h"

namespace headroom::watch {
namespace {
using testing::HasSubstr;
using testing::Not;

Nanoseconds seconds(double count) { return {static_cast<std::int64_t>(count * 1e9)}; }

TEST(ClockWatch, DistinguishesClockJumpAndSuspension) {
  ClockWatch clock;
  EXPECT_EQ(clock.check(seconds(1), seconds(1001), seconds(50)), "") << "the suspension was before the watch";
  EXPECT_EQ(clock.check(seconds(2), seconds(1002.2), seconds(50)), "") << "an NTP correction";
  const std::string jumped = clock.check(seconds(3), seconds(4603.2), seconds(50));
  EXPECT_THAT(jumped, HasSubstr("the wall clock jumped by +3600.0 s"));
  EXPECT_THAT(jumped, Not(HasSubstr("suspended")));
  const std::string back = clock.check(seconds(4), seconds(1004.2), seconds(50));
  EXPECT_THAT(back, HasSubstr("jumped by -3600.0 s"));
  const std::string slept = clock.check(seconds(5), seconds(4605.2), seconds(3650));
  EXPECT_THAT(slept, HasSubstr("the machine was suspended for 3600.0 s"));
  EXPECT_THAT(slept, Not(HasSubstr("jumped")));
  const std::string both = clock.check(seconds(6), seconds(4706.2), seconds(3660));
  EXPECT_THAT(both, HasSubstr("suspended for 10.0 s"));
  EXPECT_THAT(both, HasSubstr("jumped by +90.0 s"));
  EXPECT_EQ(clock.check(seconds(7), seconds(4707.2), seconds(3660)), "");
}

TEST(ClockWatch, ReadsTheKernelsClocks) { EXPECT_GE(time_suspended().count, -1'000'000); }

}  // namespace
}  // namespace headroom::watch
