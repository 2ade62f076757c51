// Two workers that measure frames in turns: never both at the same time, and never waiting for a worker that
// has ended.
#include "bench/worker/frame_turns.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

namespace headroom::bench {
namespace {

constexpr Nanoseconds kTimeout{60'000'000'000}, kShort{500'000'000};

struct Ends {
  UniqueFd first, second;
};

Ends connected() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Runs two workers, each in a thread; returns the order of their frames, and how often both ran at the same
// time.
struct Workers {
  std::string order;
  std::atomic<int> at_work{0}, together{0}, waits{0};

  std::int64_t work(UniqueFd fd, bool first, int frames, bool one_thread = false) {
    FrameTurns turns(std::move(fd), first, kTimeout, [this] { ++waits; });
    turns.begin(one_thread);
    for (int i = 0; i < frames; ++i) {
      turns.next();
      if (at_work.fetch_add(1) != 0) ++together;
      if (i < turns.frames()) order += first ? 'A' : 'B';  // only the worker with the turn writes
      --at_work;
    }
    turns.end();
    return turns.frames();
  }
};

TEST(FrameTurns, AlternatesFramesOfBothWorkers) {
  Workers workers;
  auto [first, second] = connected();
  std::int64_t had_first = 0, had_second = 0;
  {
    std::jthread a(
        [&, fd = std::move(first)]() mutable { had_first = workers.work(std::move(fd), true, 4); });
    std::jthread b(
        [&, fd = std::move(second)]() mutable { had_second = workers.work(std::move(fd), false, 4); });
  }
  EXPECT_EQ(workers.order, "ABABABAB");
  EXPECT_EQ(workers.together, 0);
  EXPECT_EQ(had_first, 4);
  EXPECT_EQ(had_second, 4);
}

TEST(FrameTurns, ContinuesAloneWithMoreFrames) {
  for (const bool first_has_more : {true, false}) {
    Workers workers;
    auto [first, second] = connected();
    std::int64_t had_first = 0, had_second = 0;
    {
      std::jthread a([&, fd = std::move(first)]() mutable {
        had_first = workers.work(std::move(fd), true, first_has_more ? 100 : 3);
      });
      std::jthread b([&, fd = std::move(second)]() mutable {
        had_second = workers.work(std::move(fd), false, first_has_more ? 3 : 100);
      });
    }
    EXPECT_EQ(workers.order.substr(0, 6), "ABABAB");
    EXPECT_EQ(first_has_more ? had_second : had_first, 3);
    // The turn after the last common frame may still arrive.
    EXPECT_LE(first_has_more ? had_first : had_second, 4);
  }
}

TEST(FrameTurns, DoesNotWaitForADeadPartner) {
  auto [first, second] = connected();
  std::jthread dies([fd = std::move(second)]() mutable {
    FrameTurns turns(std::move(fd), false, kTimeout, [] {});
    turns.begin(false);
    turns.next();
  });
  FrameTurns turns(std::move(first), true, kTimeout, [] {});
  turns.begin(false);
  for (int i = 0; i < 10; ++i) turns.next();
  turns.end();
  EXPECT_GE(turns.frames(), 1);
  EXPECT_LE(turns.frames(), 2);
}

TEST(FrameTurns, ContinuesWhenThePartnerNeverBegins) {
  auto [first, second] = connected();
  second.reset();
  FrameTurns turns(std::move(first), false, kTimeout, [] {});
  turns.begin(true);
  turns.next();
  EXPECT_EQ(turns.frames(), 0);
  EXPECT_FALSE(turns.on_one_processor());
}

// The partner exists but never takes its turn, like a stopped process.
TEST(FrameTurns, AbandonsAStoppedPartnerAfterTheTimeout) {
  auto [first, second] = connected();
  std::promise<void> given_up;
  std::jthread stopped([fd = std::move(second), until = given_up.get_future()]() mutable {
    FrameTurns turns(std::move(fd), false, kTimeout, [] {});
    turns.begin(false);
    turns.next();
    until.wait();
  });
  FrameTurns turns(std::move(first), true, kShort, [] {});
  turns.begin(false);
  for (int i = 0; i < 10; ++i) turns.next();
  given_up.set_value();
  EXPECT_EQ(turns.frames(), 1);
}

TEST(FrameTurns, SendsSignsOfLifeWhileItWaits) {
  Workers workers;
  auto [first, second] = connected();
  std::jthread late([&, fd = std::move(first)]() mutable {
    while (workers.waits == 0) std::this_thread::yield();
    workers.work(std::move(fd), true, 1);
  });
  EXPECT_EQ(workers.work(std::move(second), false, 1), 1);
}

// Both workers move if both compute in one thread, else neither.
TEST(FrameTurns, MovesBothWorkersToOneProcessorOrNeither) {
  for (const bool other_has_one_thread : {true, false}) {
    auto [first, second] = connected();
    cpu_set_t of_first, of_second, own;
    ::sched_getaffinity(0, sizeof own, &own);
    bool shared_first = false, shared_second = false;
    const auto work = [&own](UniqueFd fd, bool is_first, bool one_thread, cpu_set_t& set, bool& shared) {
      FrameTurns turns(std::move(fd), is_first, kTimeout, [] {});
      turns.begin(one_thread);
      ::sched_getaffinity(0, sizeof set, &set);
      shared = turns.on_one_processor();
      turns.next();
      turns.end();
      cpu_set_t after;  // a worker that continues alone gets its old affinity back
      ::sched_getaffinity(0, sizeof after, &after);
      EXPECT_TRUE(CPU_EQUAL(&after, &own));
    };
    {
      std::jthread a(
          [&, fd = std::move(first)]() mutable { work(std::move(fd), true, true, of_first, shared_first); });
      std::jthread b([&, fd = std::move(second)]() mutable {
        work(std::move(fd), false, other_has_one_thread, of_second, shared_second);
      });
    }
    EXPECT_EQ(shared_first, other_has_one_thread);
    EXPECT_EQ(shared_second, other_has_one_thread);
    EXPECT_TRUE(CPU_EQUAL(&of_first, &of_second));
    EXPECT_EQ(CPU_COUNT(&of_first), other_has_one_thread ? 1 : CPU_COUNT(&own));
  }
}

}  // namespace
}  // namespace headroom::bench
