#include "serve/httplib/growing_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

namespace headroom::serve {
namespace {

// Runs `jobs` jobs at once. All end together.
void run_at_once(GrowingPool& pool, int jobs) {
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future();
  std::atomic<int> begun = 0, done = 0;
  for (int i = 0; i < jobs; ++i)
    pool.enqueue([&, ended] {
      ++begun;
      ended.wait();
      ++done;
    });
  while (begun < jobs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(pool.threads(), static_cast<std::size_t>(jobs));
  end.set_value();
  while (done < jobs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

bool shrinks_to(GrowingPool& pool, std::size_t threads) {
  for (int tries = 0; tries < 60'000 && pool.threads() != threads; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return pool.threads() == threads;
}

TEST(GrowingPool, EndsUnusedThreads) {
  const std::atomic<bool> is_ending = false;
  HighLoad high_load;
  GrowingPool pool(is_ending, high_load,
                   {.max_jobs = 8, .high_load = 6, .min_threads = 2, .idle = Nanoseconds{5'000'000}});
  for (int times = 0; times < 3; ++times) {
    run_at_once(pool, 8);
    EXPECT_TRUE(shrinks_to(pool, 2));
  }
  EXPECT_FALSE(high_load.is_high());
  pool.shutdown();
}

// Jobs that follow each other wake all threads in turn, so no single thread is idle for long.
TEST(GrowingPool, EndsUnusedThreadsWhileSomeWork) {
  const std::atomic<bool> is_ending = false;
  HighLoad high_load;
  GrowingPool pool(is_ending, high_load,
                   {.max_jobs = 8, .high_load = 6, .min_threads = 2, .idle = Nanoseconds{100'000'000}});
  run_at_once(pool, 8);
  for (int jobs = 0; jobs < 30'000 && pool.threads() > 2; ++jobs) {
    pool.enqueue([] {});
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(pool.threads(), 2U);
  pool.shutdown();
}

TEST(GrowingPool, KeepsThreadsWhileAllAreBusy) {
  const std::atomic<bool> is_ending = false;
  HighLoad high_load;
  GrowingPool pool(is_ending, high_load,
                   {.max_jobs = 8, .high_load = 6, .min_threads = 2, .idle = Nanoseconds{60'000'000'000}});
  run_at_once(pool, 8);
  run_at_once(pool, 8);
  EXPECT_EQ(pool.threads(), 8U);
  pool.shutdown();
}

}  // namespace
}  // namespace headroom::serve
