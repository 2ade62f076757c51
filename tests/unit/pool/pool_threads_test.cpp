// Many threads and faults, and how they interact. No test depends on speed: an endless wait would end at
// the test program's time limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "fake_machine.h"
#include "pool/pool.h"

namespace headroom::pool {
namespace {

using test::add;
using test::FakeMachine;
using test::Gate;
using test::session_of;
using test::SmallPool;

// A real process's readings vary by some KiB. With a load delay several loads are gathered.
struct NoiseAndDelay {
  Bytes noise;
  Nanoseconds load_delay;
};
class PoolThreadsWithNoise : public ::testing::TestWithParam<NoiseAndDelay> {};
INSTANTIATE_TEST_SUITE_P(KiB, PoolThreadsWithNoise,
                         ::testing::Values(NoiseAndDelay{{}, {}}, NoiseAndDelay{kibibytes(64), {}},
                                           NoiseAndDelay{kibibytes(64), {2'000'000}}));

TEST_P(PoolThreadsWithNoise, AnswersAllRequestsWithinTheBudget) {
  constexpr int kThreads = 8, kRequests = 2000, kModels = 12;
  const Bytes noise = GetParam().noise;
  FakeMachine machine(mebibytes(100), mebibytes(10));
  PoolOptions options = machine.options();
  options.margin = noise;
  options.load_delay = GetParam().load_delay;
  std::atomic<std::int64_t> readings = 0;
  options.meter.read = [&] { return machine.used() + Bytes{noise.count * (++readings * 7 % 11) / 10}; };
  Pool pool(std::move(options));
  for (int m = 0; m < kModels; ++m)
    add(pool, machine, {std::to_string(m), mebibytes(10 + 5 * m), mebibytes(15 + 5 * m)});
  std::atomic<int> served = 0, shared = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < kRequests; ++i) {
        const Lease lease =
            pool.acquire(std::to_string(random() % kModels), {{}, static_cast<int>(random() % 3)});
        if (!lease) continue;
        if (++session_of(lease).users > 1) ++shared;
        ++served;
        --session_of(lease).users;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, kThreads * kRequests);
  EXPECT_EQ(shared, 0);
  EXPECT_LE(machine.peak(), mebibytes(100));
  const Metrics metrics = pool.metrics();
  // Noise may have lowered each session's measured size by that much.
  const Bytes all_noise{kModels * noise.count};
  EXPECT_LE(metrics.peak_used, mebibytes(100) + all_noise);
  EXPECT_EQ(metrics.requests, kThreads * kRequests);
  EXPECT_EQ(metrics.hits + metrics.waits, metrics.requests);
  EXPECT_LE(metrics.unaccounted, all_noise);
}

TEST(PoolThreads, ServesHigherPriorityFirst) {
  FakeMachine machine;
  Pool pool(machine.options({.patience = {3'600'000'000'000}}));
  add(pool, machine, {"a"});
  Lease held = pool.acquire("a");
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::thread> threads;
  for (const int priority : {0, 2, 1}) {
    threads.emplace_back([&, priority] {
      const Lease lease = pool.acquire("a", {{}, priority});
      const std::lock_guard lock(mutex);
      order.push_back(priority);
    });
    while (pool.metrics().waits < static_cast<std::int64_t>(threads.size()) + 1) std::this_thread::yield();
  }
  held.release();
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(order, ::testing::ElementsAre(2, 1, 0));
}

TEST_F(SmallPool, LowPriorityIsNotStarvedByHighPriority) {
  add({"a", mebibytes(60)});
  add({"b", mebibytes(60)});  // does not fit together with a
  std::atomic<bool> is_done = false;
  std::vector<std::thread> stream;
  for (int t = 0; t < 4; ++t)
    stream.emplace_back([&] {
      while (!is_done) EXPECT_TRUE(pool_.acquire("a", {{}, 100}));
    });
  while (pool_.metrics().hits < 10) std::this_thread::yield();
  EXPECT_TRUE(pool_.acquire("b", {{}, 0}));  // patience is 1 ms: after 100 ms it ranks first
  is_done = true;
  for (std::thread& thread : stream) thread.join();
  EXPECT_LE(machine_.peak(), mebibytes(100));
}

// An endless lease blocks only the request that needs its memory.
TEST_F(SmallPool, EndlessWaiterDoesNotBlockOtherRequests) {
  add({"kept", mebibytes(60)});
  add({"waits", mebibytes(60)});
  for (const char* name : {"beside", "too"}) add({name, mebibytes(30)});
  Lease kept = pool_.acquire("kept");
  std::thread other([&] { EXPECT_TRUE(pool_.acquire("waits")); });
  while (pool_.metrics().waits < 2) std::this_thread::yield();
  // Longer than the patience of 1 ms; with and without free memory next to the claim.
  for (int i = 0; i < 50; ++i)
    for (const char* name : {"beside", "too"}) ASSERT_TRUE(pool_.acquire(name)) << name;
  kept.release();
  other.join();
  EXPECT_LE(machine_.peak(), mebibytes(100));
}

TEST_F(SmallPool, WaitsForMemoryThatTheProgramUsesTemporarily) {
  add({"pinned", mebibytes(30)});
  add({"other", mebibytes(50)});
  EXPECT_TRUE(pool_.pin("pinned"));
  const Lease busy = pool_.acquire("pinned");
  machine_.take(mebibytes(40));  // the temporary memory of a run
  std::thread other([&] { EXPECT_TRUE(pool_.acquire("other")); });
  while (pool_.metrics().waits < 2 || pool_.metrics().unaccounted.count == 0) std::this_thread::yield();
  machine_.give(mebibytes(40));  // the pool gets no notice of this
  other.join();
  EXPECT_LE(machine_.peak(), mebibytes(100));
}

// If a runtime started between the two readings of a load, its memory would be attributed to the model, and
// the model's to the runtime.
TEST(PoolThreads, GrowsTheBaselineOnlyWhileNothingIsLoaded) {
  FakeMachine machine(mebibytes(100), mebibytes(5));
  Pool pool(machine.options());
  Gate gate;
  std::atomic<bool> is_grown = false;
  const auto add_unknown = [&](const std::string& name, auto before) {
    Model model = test::model_of(machine, {name, mebibytes(10)});
    model.memory = {{}, {}, mebibytes(20)};
    model.load = [=, load = model.load](const std::shared_ptr<void>& sibling) {
      before();
      return load(sibling);
    };
    ASSERT_TRUE(pool.add(std::move(model)));
  };
  add_unknown("earlier", [&] { gate.wait_open(); });
  add_unknown("later", [&] { EXPECT_TRUE(is_grown); });
  std::thread earlier([&] { EXPECT_TRUE(pool.acquire("earlier")); });
  gate.wait_for_waiter();
  std::thread later;
  std::thread runtime([&] {
    pool.grow_baseline([&] {
      EXPECT_EQ(pool.metrics().loading.count, 0);
      machine.take(mebibytes(20));
      later = std::thread([&] { EXPECT_TRUE(pool.acquire("later")); });
      while (pool.metrics().waits < 2) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // enough time to start too early
      is_grown = true;
    });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  gate.open();
  for (std::thread* thread : {&earlier, &runtime, &later}) thread->join();
  EXPECT_EQ(pool.metrics().resident, mebibytes(20)) << "10 MiB each";
  EXPECT_EQ(pool.metrics().used, mebibytes(5 + 20 + 20));
  EXPECT_EQ(pool.metrics().unaccounted.count, 0);
}

TEST(PoolThreads, ShutdownRefusesWaitingRequests) {
  FakeMachine machine;
  auto pool = std::make_unique<Pool>(machine.options());
  add(*pool, machine, {"a"});
  Lease held = pool->acquire("a");
  std::thread waiter([&pool = *pool] { EXPECT_EQ(pool.acquire("a").refusal(), Refusal::shut_down); });
  while (pool->metrics().waits < 2) std::this_thread::yield();
  pool.reset();
  waiter.join();
}

}  // namespace
}  // namespace headroom::pool
