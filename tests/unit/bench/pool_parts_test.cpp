#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <atomic>
#include <thread>
#include <vector>

#include "bench/worker/pool_parts.h"

namespace headroom::bench {
namespace {

pool::Event event(pool::EventKind kind, const char* models) {
  pool::Event made;
  made.kind = kind;
  made.model = models;
  made.took = {7'000'000};
  return made;
}

// The pool counts a load before it reports it, and a thread that waited for the load continues in between.
TEST(PoolJournal, WaitsForEventsThatThePoolHasCounted) {
  PoolJournal journal(std::nullopt);
  std::thread pool([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    journal.add(event(pool::EventKind::loaded, "a"));
    journal.add(event(pool::EventKind::unloaded, "a, b"));
  });
  constexpr Nanoseconds kLong{60'000'000'000};
  journal.wait_for(1, 2, kLong);
  const PooledAccount a = journal.take("a"), b = journal.take("b");
  EXPECT_THAT(a.loads, testing::ElementsAre(7'000'000));
  EXPECT_EQ(a.counters.unloads, 1);
  EXPECT_EQ(b.counters.unloads, 1);
  pool.join();
  journal.wait_for(9, 0, {1'000'000});  // an event that never arrives must not block forever
}

TEST(TaskThreads, RunEachTaskOfEachRoundOnce) {
  constexpr std::size_t kTasks = 7;
  for (const std::size_t count : {1, 2, 5, 16}) {
    TaskThreads threads(count);
    std::vector<int> done(kTasks);  // each task belongs to one thread
    for (int round = 1; round <= 200; ++round) {
      int notified = 0;
      threads.run(
          kTasks, [&](std::size_t i) { ++done[i]; }, [&] { ++notified; });
      EXPECT_EQ(done, std::vector<int>(kTasks, round));
      EXPECT_GE(notified, 1);
      EXPECT_LE(notified, static_cast<int>(kTasks));
    }
    threads.run(
        0, [](std::size_t) { FAIL(); }, [] { FAIL(); });
    if (count > 1) continue;  // on the caller's thread
    threads.run(
        2, [me = std::this_thread::get_id()](std::size_t) { EXPECT_EQ(std::this_thread::get_id(), me); },
        [] {});
  }
}

TEST(TaskThreads, RunTheTasksOfARoundAtTheSameTime) {
  TaskThreads threads(3);
  std::atomic<int> begun = 0;
  threads.run(
      3,
      [&](std::size_t) {
        ++begun;
        while (begun < 3) std::this_thread::yield();  // each task waits for the others
      },
      [] {});
  EXPECT_EQ(begun, 3);
}

}  // namespace

}  // namespace headroom::bench
