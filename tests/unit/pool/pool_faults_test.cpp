// Loads and frees that fail, throw or hang. No test depends on speed: an endless wait would end at the test
// program's time limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <list>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fake_machine.h"
#include "pool/pool.h"

namespace headroom::pool {
namespace {

using test::add;
using test::FakeMachine;
using test::Gate;
using test::SmallPool;
using ::testing::HasSubstr;

TEST(PoolThreads, FailedLoadRefusesAllItsWaiters) {
  FakeMachine machine;
  Pool pool(machine.options({.patience = {1'000'000}, .retry_after = {3'600'000'000'000}}));
  Gate gate;
  std::atomic<bool> fails = true;
  add(pool, machine, {"bad", mebibytes(10), {}, {}, 1, {}, &gate, &fails});
  add(pool, machine, {"good"});
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      const Lease lease = pool.acquire("bad");
      EXPECT_EQ(lease.refusal(), Refusal::load_failed);
      EXPECT_THAT(lease.message(), HasSubstr("it is broken"));
    });
  while (pool.metrics().waits < 3) std::this_thread::yield();
  gate.open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(pool.acquire("good"));
  const Lease again = pool.acquire("bad");  // the next attempt is in an hour
  EXPECT_EQ(again.refusal(), Refusal::load_failed);
  EXPECT_THAT(again.message(), HasSubstr("next attempt in"));
  EXPECT_EQ(pool.metrics().load_failures, 1);
}

TEST(PoolThreads, RetriesAFailedLoad) {
  FakeMachine machine;
  Pool pool(machine.options({.patience = {1'000'000}, .retry_after = {0}}));
  std::atomic<bool> fails = true;
  add(pool, machine, {"a", mebibytes(10), {}, {}, 1, {}, nullptr, &fails});
  EXPECT_EQ(pool.acquire("a").refusal(), Refusal::load_failed);
  fails = false;
  EXPECT_TRUE(pool.acquire("a"));
}

TEST_F(SmallPool, TreatsAnExceptionInALoadAsAFailure) {
  add({"good"});
  Model model;
  model.name = "throws";
  model.load = [](const std::shared_ptr<void>&) -> Result<std::shared_ptr<void>> {
    throw std::runtime_error("boom");
  };
  ASSERT_TRUE(pool_.add(std::move(model)));
  const Lease lease = pool_.acquire("throws");
  EXPECT_EQ(lease.refusal(), Refusal::load_failed);
  EXPECT_THAT(lease.message(), HasSubstr("boom"));
  EXPECT_TRUE(pool_.acquire("good"));
}

TEST(PoolThreads, HangingLoadDoesNotBlockOtherModels) {
  FakeMachine machine;
  Pool pool(machine.options({.load_timeout = {1'000'000'000}, .patience = {1'000'000}}));
  Gate gate;
  add(pool, machine, {"hangs", mebibytes(30), {}, {}, 1, {}, &gate});
  for (const char* name : {"a", "b", "c"}) add(pool, machine, {name, mebibytes(30)});
  std::thread victim([&] {
    const Lease lease = pool.acquire("hangs");
    EXPECT_EQ(lease.refusal(), Refusal::load_hangs);
  });
  gate.wait_for_waiter();
  for (const char* name : {"a", "b", "c", "a"}) EXPECT_TRUE(pool.acquire(name)) << name;
  victim.join();
  EXPECT_EQ(pool.acquire("hangs").refusal(), Refusal::load_hangs);
  // The pool does not give the memory that the hanging load may have taken to others.
  EXPECT_EQ(pool.metrics().stuck, mebibytes(30));
  EXPECT_GT(pool.metrics().evictions, 0);
  EXPECT_LE(pool.metrics().peak_used, mebibytes(100));
  gate.open();
  while (pool.metrics().stuck.count > 0) std::this_thread::yield();
  EXPECT_TRUE(pool.acquire("hangs"));
  EXPECT_LE(machine.peak(), mebibytes(100));
}

TEST(PoolThreads, HangingFreeDoesNotBlockOtherModels) {
  FakeMachine machine;
  PoolOptions options = machine.options();
  options.load_timeout = {1'000'000'000};
  std::atomic<bool> is_reported = false;
  options.observer = [&](const Event& event) {
    if (event.kind == EventKind::unload_hangs)
      is_reported = event.model == "hangs" && event.cause == UnloadCause::asked;
  };
  Gate gate;
  Pool pool(std::move(options));
  Model model = test::model_of(machine, {"hangs", mebibytes(30)});
  model.load = [&](const std::shared_ptr<void>&) -> Result<std::shared_ptr<void>> {
    machine.take(mebibytes(30));
    return std::shared_ptr<void>(&machine, [&](void*) {
      gate.wait_open();
      machine.give(mebibytes(30));
    });
  };
  ASSERT_TRUE(pool.add(std::move(model)));
  for (const char* name : {"a", "b"}) add(pool, machine, {name, mebibytes(30)});
  { const Lease lease = pool.acquire("hangs"); }
  EXPECT_TRUE(pool.unload("hangs"));
  gate.wait_for_waiter();
  for (const char* name : {"a", "b", "a"}) EXPECT_TRUE(pool.acquire(name)) << name;
  EXPECT_EQ(pool.metrics().stuck, mebibytes(30));
  EXPECT_TRUE(is_reported);
  gate.open();
  while (pool.metrics().stuck.count > 0) std::this_thread::yield();
  EXPECT_EQ(machine.used(), mebibytes(60));
}

// Never destroyed: a thread that outlives its pool, the test and perhaps main() still uses it.
template <class T>
T& kept() {
  static auto* all = new std::list<T>;
  return all->emplace_back();
}

const PoolOptions kShortTimeout{.load_timeout = {200'000'000}, .patience = {1'000'000}};

TEST(PoolThreads, HangingFreeDoesNotBlockShutdown) {
  FakeMachine& machine = kept<FakeMachine>();
  Gate& gate = kept<Gate>();
  {
    Pool pool(machine.options(kShortTimeout));
    Model model = test::model_of(machine, {"hangs", mebibytes(30)});
    model.load = [&](const std::shared_ptr<void>&) -> Result<std::shared_ptr<void>> {
      return std::shared_ptr<void>(&machine, [&](void*) {
        gate.wait_open();
        machine.take(mebibytes(1));  // shows that the free has ended
      });
    };
    ASSERT_TRUE(pool.add(std::move(model)));
    ASSERT_TRUE(pool.preload("hangs"));
  }
  EXPECT_EQ(machine.used().count, 0);
  gate.open();
  while (machine.used() == Bytes{}) std::this_thread::yield();
}

TEST(PoolThreads, FreesOtherModelsIfALoadHangsAtShutdown) {
  FakeMachine& machine = kept<FakeMachine>();
  Gate& gate = kept<Gate>();
  std::thread waiter;
  {
    Pool pool(machine.options(kShortTimeout));
    add(pool, machine, {"good", mebibytes(10)});
    add(pool, machine, {"hangs", mebibytes(30), {}, {}, 1, {}, &gate});
    ASSERT_TRUE(pool.preload("good"));
    waiter = std::thread([&] { EXPECT_FALSE(pool.acquire("hangs")); });
    gate.wait_for_waiter();
  }
  waiter.join();
  EXPECT_EQ(machine.used().count, 0);
  gate.open();
  while (machine.peak() < mebibytes(30)) std::this_thread::yield();
  while (machine.used().count != 0) std::this_thread::yield();
}

}  // namespace
}  // namespace headroom::pool
