#include "limits/memory_limit.h"

#include <gtest/gtest.h>

#include "support/test_support.h"

namespace headroom::limits {
namespace {

TEST(MakeMemoryLimit, TooSmallALimitIsRefusedWithAFix) {
  std::string note;
  const auto limit = make_memory_limit("m", mebibytes(1), "auto", note);
  ASSERT_FALSE(limit);
  EXPECT_EQ(
      limit.error().sentence(),
      "a memory limit of 1.0 MiB is too small: no process of Headroom's starts in it; give at least 8.0 MiB");
}

TEST(MakeMemoryLimit, ForcedMechanismsAreTaken) {
  std::string note;
  EXPECT_EQ((*make_memory_limit("m", mebibytes(64), "rlimit", note))->mechanism(),
            LimitMechanism::rlimit_data);
  EXPECT_EQ((*make_memory_limit("m", mebibytes(64), "watchdog", note))->mechanism(),
            LimitMechanism::watchdog);
  EXPECT_EQ((*make_memory_limit("m", mebibytes(64), "none", note))->mechanism(), LimitMechanism::none);
}

TEST(MakeMemoryLimit, WithoutALimitThereIsAtMostAnAccount) {
  std::string note;
  const auto limit = make_memory_limit("m", std::nullopt, "auto", note);
  ASSERT_TRUE(limit);
  EXPECT_EQ((*limit)->bytes(), Bytes{});
}

TEST(LimitProbe, EveryRouteTakesMemoryWhereNothingRefusesIt) {
  for (const std::string& route : probe_routes()) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_limit_probe(route, mebibytes(4)), 0) << route;
    testing::internal::GetCapturedStdout();
  }
}

TEST(LimitProbe, AnUnknownRouteTakesNothing) {
  testing::internal::CaptureStdout();
  EXPECT_NE(run_limit_probe("wish", mebibytes(4)), 0);
  testing::internal::GetCapturedStdout();
}

}  // namespace
}  // namespace headroom::limits
