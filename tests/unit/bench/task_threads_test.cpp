#include "bench/worker/task_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace headroom::bench {
namespace {

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

TEST(TaskThreads, UseTheCallersThreadForACountOfOne) {
  TaskThreads threads(1);
  threads.run(
      2, [me = std::this_thread::get_id()](std::size_t) { EXPECT_EQ(std::this_thread::get_id(), me); },
      [] {});
}

}  // namespace
}  // namespace headroom::bench
