// A profile never ends during a run, and always ends soon, however many threads share the session.
#include "preload/profile_gate.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace headroom::preload {
namespace {

using Entry = ProfileGate::Entry;
using std::chrono::milliseconds;

constexpr std::uint64_t kSecond = 1'000'000'000;

class ProfileGateTest : public testing::Test {
 protected:
  ProfileGateTest() { gate_.open(true); }

  void enter_in_time() { EXPECT_EQ(gate_.enter(false), Entry::profiled); }
  // Three of four runs end: the fourth is in flight.
  void run_three_of_four() {
    for (int i = 0; i < 4; ++i) enter_in_time();
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(gate_.leave(10));
  }
  // A thread that calls enter(); the result is 0 until it returns.
  std::thread enter_elsewhere() {
    return std::thread([this] {
      entry_ = gate_.enter(false);
      is_in_ = true;
    });
  }
  static void wait_a_little() { std::this_thread::sleep_for(milliseconds(50)); }

  ProfileGate gate_;
  std::atomic<Entry> entry_{Entry::profiled};
  std::atomic<bool> is_in_{false};
};

TEST_F(ProfileGateTest, OneThreadEndsTheProfileAfterTheThirdRun) {
  for (std::uint32_t run = 1; run <= kProfiledRuns; ++run) {
    enter_in_time();
    EXPECT_EQ(gate_.leave(10), run == kProfiledRuns);
  }
  gate_.set_ended();
  EXPECT_FALSE(gate_.is_profiled());
  EXPECT_EQ(gate_.enter(false), Entry::unprofiled);
}

TEST_F(ProfileGateTest, WithoutAProfileNothingIsCounted) {
  gate_.open(false);
  EXPECT_EQ(gate_.enter(false), Entry::unprofiled);
  EXPECT_FALSE(gate_.close(kSecond));
  EXPECT_FALSE(gate_.close_for_release());
}

TEST_F(ProfileGateTest, LastRunInFlightEndsTheProfileAndNewRunsWait) {
  run_three_of_four();
  std::thread other = enter_elsewhere();
  wait_a_little();
  EXPECT_FALSE(is_in_);
  EXPECT_TRUE(gate_.leave(10));
  wait_a_little();
  EXPECT_FALSE(is_in_) << "the profile is being written";
  gate_.set_ended();
  other.join();
  EXPECT_EQ(entry_, Entry::unprofiled);
}

TEST_F(ProfileGateTest, NestedRunDoesNotWait) {
  run_three_of_four();
  EXPECT_EQ(gate_.enter(true), Entry::profiled) << "inside the fourth, which waits for it";
  EXPECT_FALSE(gate_.leave(10));
  EXPECT_TRUE(gate_.leave(10));
}

TEST_F(ProfileGateTest, WaitForAnEndlessRunTimesOut) {
  run_three_of_four();
  EXPECT_EQ(gate_.enter(false), Entry::gave_up_first);
  EXPECT_EQ(gate_.enter(false), Entry::profiled) << "a second caller must not wait";
  EXPECT_FALSE(gate_.leave(10));
  EXPECT_FALSE(gate_.leave(10));
  EXPECT_TRUE(gate_.leave(10)) << "it ended late, and no run is in flight";
}

TEST_F(ProfileGateTest, ProcessExitEndsTheProfileUnlessARunIsInFlight) {
  enter_in_time();
  EXPECT_FALSE(gate_.close(0));
  enter_in_time();
  EXPECT_FALSE(gate_.leave(10)) << "one is in flight, and one run is not enough";
  gate_.open(true);
  enter_in_time();
  EXPECT_FALSE(gate_.leave(10));
  EXPECT_TRUE(gate_.close(0)) << "before the third run";
}

TEST_F(ProfileGateTest, ProcessExitWaitsForARunThatEndsTheProfile) {
  enter_in_time();
  std::thread run([this] {
    wait_a_little();
    if (gate_.leave(10)) gate_.set_ended();
  });
  EXPECT_FALSE(gate_.close(60 * kSecond)) << "the run has ended it";
  EXPECT_FALSE(gate_.is_profiled());
  run.join();
}

TEST_F(ProfileGateTest, ReleaseOfASessionEndsItsProfile) {
  enter_in_time();  // its thread was cancelled
  EXPECT_TRUE(gate_.close_for_release());
  gate_.set_ended();
  EXPECT_FALSE(gate_.leave(10));
  EXPECT_FALSE(gate_.is_profiled());
}

TEST_F(ProfileGateTest, ForkedChildNeitherWaitsNorEndsTheProfile) {
  run_three_of_four();
  const pid_t child = ::fork();
  if (child == 0) {
    bool right = gate_.enter(false) == Entry::unprofiled;
    right = !gate_.leave(10) && right;  // for the run that forked
    right = !gate_.close(kSecond) && !gate_.close_for_release() && right;
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(gate_.leave(10));
}

// Many threads run at the same time: the profile ends exactly once, and no run overlaps its end.
TEST_F(ProfileGateTest, EndsOnceWithNoRunInFlight) {
  for (int repetition = 0; repetition < 50; ++repetition) {
    ProfileGate gate;
    gate.open(true);
    std::atomic<int> in_flight{0}, ends{0}, overlaps{0};
    const auto run = [&] {
      const Entry entry = gate.enter(false);
      if (entry != Entry::unprofiled) ++in_flight;
      std::this_thread::yield();
      if (entry == Entry::unprofiled) return;
      --in_flight;
      if (!gate.leave(10)) return;
      ++ends;
      if (in_flight.load() != 0) ++overlaps;
      std::this_thread::yield();
      if (in_flight.load() != 0) ++overlaps;
      gate.set_ended();
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        for (int k = 0; k < 100; ++k) run();
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(ends, 1);
    EXPECT_EQ(overlaps, 0);
    EXPECT_FALSE(gate.is_profiled());
  }
}

}  // namespace
}  // namespace headroom::preload
