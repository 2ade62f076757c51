#include "attribution/cycle_leaks.h"
#include "unit/attribution/analyze.h"

#include <gtest/gtest.h>

namespace headroom::attribution {
namespace {
using monitoring::Growth;

// 24 cycles, each of which keeps 100 bytes of every stack in `places`. After the cycles, `released[i]`
// blocks of stack i are released, one each nanosecond.
struct KeptUntilTheEnd {
  std::vector<std::uint64_t> places{0x401000};
  std::vector<int> released{24};
  bool each_its_own = false;  // each cycle allocates from a different stack
  bool closed = true;
  std::string program = "/opt/detector";

  LeakVerdict verdict() const {
    OwnRecording builder({.closed = closed, .segment_bytes = 1 << 20});
    builder.module(program, "\x01\x02", 0x400000, 0x500000, 0);
    const auto run = builder.scope("Run");
    std::uint64_t time = 0;
    const auto address = [](std::size_t place, std::uint64_t cycle) {
      return 0x100000 * (place + 1) + 0x1000 * cycle;
    };
    for (std::uint64_t cycle = 1; cycle <= 24; ++cycle) {
      builder.enter_scope(0, ++time, run);
      for (std::size_t i = 0; i < places.size(); ++i)
        builder.allocate(0, ++time, address(i, cycle), 100, {places[i] + (each_its_own ? 0x100 * cycle : 0)});
      builder.enter_scope(0, ++time, 0);
    }
    time = 1000;
    for (std::size_t i = 0; i < places.size(); ++i)
      for (std::uint64_t cycle = 1; cycle <= static_cast<std::uint64_t>(released[i]); ++cycle)
        builder.release(0, ++time, address(i, cycle));
    builder.allocate(0, 5000, 0x900000, 8, {0x409000});
    return analyze(builder).leaks;
  }
};

TEST(ReleasedLater, MemoryReleasedAfterLastCycleIsNotALeak) {
  const LeakVerdict verdict = KeptUntilTheEnd{}.verdict();
  EXPECT_EQ(verdict.growth, Growth::grew_then_released);
  EXPECT_DOUBLE_EQ(verdict.bytes_per_cycle, 100);
  EXPECT_EQ(verdict.released_bytes, verdict.late_bytes);
  // The warm-up is the first third of the 23 judged cycles, in which 9 blocks were kept.
  ASSERT_TRUE(verdict.released_at.has_value());
  EXPECT_EQ(verdict.released_at->count, 1000 + 24 - 9);
  ASSERT_EQ(verdict.stacks.size(), 1U);
  EXPECT_EQ(verdict.stacks[0].growth, Growth::grew_then_released);
  EXPECT_EQ(verdict.stacks[0].last_bytes, 2400);
  EXPECT_EQ(verdict.stacks[0].end_bytes, 0);
  EXPECT_FALSE(verdict.is_sum);
}

// An interpreter also releases leaked memory when it exits.
TEST(ReleasedLater, ReleaseAtInterpreterExitDoesNotHideLeak) {
  const LeakVerdict verdict = KeptUntilTheEnd{.program = "/usr/bin/python3.11"}.verdict();
  EXPECT_EQ(verdict.growth, Growth::leak);
  EXPECT_DOUBLE_EQ(verdict.bytes_per_cycle, 100);
}

TEST(ReleasedLater, ReportsPartialRelease) {
  const LeakVerdict verdict = KeptUntilTheEnd{.released = {10}}.verdict();
  EXPECT_EQ(verdict.growth, Growth::leak);
  EXPECT_EQ(verdict.released_bytes, 1000);
  EXPECT_FALSE(verdict.released_at.has_value());
  EXPECT_FALSE(verdict.is_cut_off);
  EXPECT_EQ(verdict.stacks[0].end_bytes, 1400);
}

// Only memory that stays counts: the growth of the released stack is not part of the leak.
TEST(ReleasedLater, LeakExcludesStackThatIsReleased) {
  const LeakVerdict verdict = KeptUntilTheEnd{.places = {0x401000, 0x402000}, .released = {24, 0}}.verdict();
  EXPECT_EQ(verdict.growth, Growth::leak);
  EXPECT_DOUBLE_EQ(verdict.bytes_per_cycle, 100);
  EXPECT_EQ(verdict.released_bytes, 0);
  ASSERT_EQ(verdict.stacks.size(), 2U);
  EXPECT_EQ(std::count_if(verdict.stacks.begin(), verdict.stacks.end(),
                          [](const StackGrowth& stack) { return stack.growth == Growth::leak; }),
            1);
}

TEST(ReleasedLater, RecognizesReleaseOfManyStacksTogether) {
  const LeakVerdict released = KeptUntilTheEnd{.each_its_own = true}.verdict();
  EXPECT_EQ(released.growth, Growth::grew_then_released);
  EXPECT_TRUE(released.is_sum);
  EXPECT_DOUBLE_EQ(released.bytes_per_cycle, 100);
  ASSERT_TRUE(released.released_at.has_value());
  EXPECT_EQ(released.released_at->count, 1024);
  EXPECT_EQ(KeptUntilTheEnd({.released = {23}, .each_its_own = true}).verdict().growth, Growth::leak)
      << "as much is left as one cycle leaves behind";
}

// After a kill, later releases are unknown. Releases before the kill count.
TEST(ReleasedLater, KilledProcessIsMarkedAsCutOff) {
  const LeakVerdict killed = KeptUntilTheEnd{.released = {0}, .closed = false}.verdict();
  EXPECT_EQ(killed.growth, Growth::leak);
  EXPECT_TRUE(killed.is_cut_off);
  EXPECT_EQ(KeptUntilTheEnd{.closed = false}.verdict().growth, Growth::grew_then_released);
}

}  // namespace
}  // namespace headroom::attribution
