#include "report/recording/leak_words.h"

#include <gmock/gmock.h>

namespace headroom::report {
namespace {

using attribution::LeakVerdict;
using monitoring::Growth;
using testing::HasSubstr;

LeakVerdict verdict(Growth growth, double bytes_per_cycle = 0) {
  LeakVerdict verdict;
  verdict.growth = growth;
  verdict.cycle = "net/run";
  verdict.cycles = 1200;
  verdict.bytes_per_cycle = bytes_per_cycle;
  return verdict;
}

TEST(LeakWords, ReportsALeakOfLessThanAByte) {
  EXPECT_EQ(words_for_leaks(verdict(Growth::leak, 3072)),
            "Leak: net/run leaves 3.0 KiB more memory with each of 1,200 cycles.");
  EXPECT_EQ(words_for_leaks(verdict(Growth::leak, 0.06)),
            "Leak: net/run leaves under 1 B more memory with each of 1,200 cycles.");
}

TEST(LeakWords, ReportsTheLastStepOfGrowth) {
  LeakVerdict steps = verdict(Growth::leak, 400);
  steps.last_step = 640;
  EXPECT_EQ(words_for_leaks(steps),
            "Leak: net/run leaves 400 B more memory with each of 1,200 cycles on average. It grows in steps, "
            "like a "
            "container that is never emptied (last step at cycle 640).");
  LeakVerdict stayed = verdict(Growth::grew_then_stayed);
  stayed.last_step = 4;
  EXPECT_EQ(words_for_leaks(stayed),
            "No leak: memory grew until cycle 4 of net/run and then stayed the same, over 1,200 cycles.");
  stayed.last_step = 0;
  EXPECT_EQ(words_for_leaks(stayed),
            "No leak: after 1,200 cycles of net/run, more memory is live than after the first ones, but it "
            "no longer "
            "grows.");
}

TEST(LeakWords, CallsLateGrowthUnclear) {
  LeakVerdict late = verdict(Growth::grew_late);
  late.last_step = 1150;
  late.late_bytes = 3 << 10;
  EXPECT_EQ(
      words_for_leaks(late),
      "Unclear: net/run holds 3.0 KiB more than after its warm-up, and last grew at cycle 1,150 of 1,200. "
      "Record more cycles to see whether it stays.");
}

TEST(LeakWords, ReportsWhenGrowthWasReleased) {
  LeakVerdict released = verdict(Growth::grew_then_released, 3072);
  released.released_at = Nanoseconds{1'204'000'000};
  EXPECT_EQ(words_for_leaks(released),
            "Memory grew and was released later: net/run left 3.0 KiB more with each of 1,200 cycles, and "
            "all of it "
            "was released by 1.204 s.");
}

TEST(LeakWords, AddsTheEndOfTheRecordingToALeak) {
  LeakVerdict leak = verdict(Growth::leak, 3072);
  leak.released_bytes = 512 << 10;
  EXPECT_THAT(words_for_leaks(leak),
              HasSubstr(". After the last cycle, 512.0 KiB of the growth was released."));
  leak.released_bytes = 0;
  leak.is_cut_off = true;
  EXPECT_THAT(words_for_leaks(leak), HasSubstr("cycles. The recording ends before the program did"));
}

TEST(LeakWords, ReportsSamePlacesOfAnotherCycleAsOneLeak) {
  LeakVerdict other = verdict(Growth::leak, 3072);
  other.same_places = true;
  EXPECT_EQ(words_for_leaks(other), "The same places grow over the 1,200 cycles of net/run.");
}

TEST(LeakWords, ExplainsAMissingVerdict) {
  EXPECT_THAT(words_for_leaks(verdict(Growth::unknown)), HasSubstr("No layer was entered and left 6 times"));
  LeakVerdict unwatched = verdict(Growth::unknown);
  unwatched.cycles_left_out = 1;
  EXPECT_THAT(words_for_leaks(unwatched), HasSubstr("No repeated layer was monitored"));
}

TEST(LeakWords, ReportsLayersThatWereNotMonitored) {
  LeakVerdict none = verdict(Growth::none);
  none.cycles_left_out = 2;
  EXPECT_EQ(words_for_cycles_left_out(none),
            "2 more repeated layers were not monitored: leaks there are unknown.");
}

}  // namespace
}  // namespace headroom::report
