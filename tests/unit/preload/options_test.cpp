#include "preload/process.h"

#include <gtest/gtest.h>

namespace headroom::preload {
namespace {

TEST(TracerOptions, ParsesEachKey) {
  const Options options =
      parse_options("full=1,stacks=fp,layers=off,ring=64,events=7,large=8192,period=1000");
  EXPECT_TRUE(options.full);
  EXPECT_EQ(options.stacks, StackMode::frame_pointers);
  EXPECT_FALSE(options.layers);
  EXPECT_TRUE(options.ring);
  EXPECT_EQ(options.segments, 64u);
  EXPECT_EQ(options.events, 7u);
  EXPECT_EQ(options.large_bytes, 8192u);
  EXPECT_EQ(options.sample_period, 1000u);
}

TEST(TracerOptions, InvalidValuesKeepTheDefault) {
  for (const char* text : {"", "full", "=1", "full=", "full=yes", "stacks=libunwind", "ring=0", "ring=-1",
                           "period=0", "unknown=3", ",,,", "events=99999999999999999999"}) {
    const Options options = parse_options(text), fresh;
    EXPECT_EQ(options.full, fresh.full) << text;
    EXPECT_EQ(options.stacks, fresh.stacks) << text;
    EXPECT_EQ(options.ring, fresh.ring) << text;
    EXPECT_EQ(options.segments, fresh.segments) << text;
    EXPECT_EQ(options.events, fresh.events) << text;
    EXPECT_EQ(options.sample_period, fresh.sample_period) << text;
  }
  EXPECT_FALSE(parse_options(nullptr).full);
}

TEST(TracerOptions, ParsesLedgerAndLimit) {
  const Options options = parse_options("ledger=1,device=4096,account=/dev/shm/x,limit=3");
  EXPECT_TRUE(options.ledger);
  EXPECT_EQ(options.device_limits.bytes[3], 4096U);
  EXPECT_STREQ(options.account, "/dev/shm/x");
  EXPECT_FALSE(options.ring);
  EXPECT_EQ(options.segments, 3u);
  EXPECT_FALSE(parse_options("ledger=x").ledger);
  EXPECT_FALSE(parse_options("full=1").ledger);
}

}  // namespace
}  // namespace headroom::preload
