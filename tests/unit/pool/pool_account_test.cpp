// What the pool charges for models, and how it corrects its account by the memory that it measures.
#include "pool/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fake_machine.h"

namespace headroom::pool {
namespace {

using test::add;
using test::FakeMachine;
using test::session_of;
using ::testing::HasSubstr;

TEST(Pool, CountsMemoryThatAnUnloadDidNotFree) {
  FakeMachine machine;
  Pool pool(machine.options());
  add(pool, machine, {"leaky", mebibytes(40), {}, mebibytes(25)});
  for (const char* name : {"a", "b", "c"}) add(pool, machine, {name, mebibytes(25)});
  ASSERT_TRUE(pool.acquire("leaky"));
  EXPECT_TRUE(pool.unload("leaky"));
  while (pool.metrics().unloads == 0) std::this_thread::yield();
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(pool.acquire(name));
  // 25 of the 100 MiB are lost: three models of 25 MiB still fit, and nothing more.
  EXPECT_EQ(pool.metrics().unaccounted, mebibytes(25));
  EXPECT_EQ(pool.metrics().short_returns, 1);
  EXPECT_LE(machine.peak(), mebibytes(100));
  EXPECT_EQ(pool.metrics().used, mebibytes(100));
}

TEST(Pool, RefusesWhenUnfreedMemoryLeavesTooLittle) {
  FakeMachine machine;
  Pool pool(machine.options());
  add(pool, machine, {"leaky", mebibytes(40), {}, mebibytes(25)});
  add(pool, machine, {"small", mebibytes(20)});
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(pool.acquire("leaky"));
    EXPECT_TRUE(pool.unload("leaky"));
    while (pool.metrics().unloads < i) std::this_thread::yield();
  }
  EXPECT_EQ(pool.metrics().unaccounted, mebibytes(75));
  EXPECT_EQ(pool.acquire("leaky").refusal(), Refusal::no_room);
  EXPECT_TRUE(pool.acquire("small"));
  EXPECT_LE(machine.peak(), mebibytes(100));
}

TEST(Pool, CountsMemoryOfTheProgramItself) {
  FakeMachine machine;
  Pool pool(machine.options());
  for (const char* name : {"a", "b"}) add(pool, machine, {name, mebibytes(40)});
  ASSERT_TRUE(pool.acquire("a"));
  machine.take(mebibytes(40));
  ASSERT_TRUE(pool.acquire("b"));
  EXPECT_LE(machine.peak(), mebibytes(100));
  machine.give(mebibytes(40));
  ASSERT_TRUE(pool.acquire("a"));
  EXPECT_EQ(pool.metrics().evictions,
            1);  // a was evicted once; when the program's memory is free again, both fit
}

// Evicting idle models frees memory beyond their charges, too. So the pool evicts them before it refuses a
// request.
TEST(Pool, EvictsModelsThatHoldMoreThanTheirCharge) {
  FakeMachine machine;
  Pool pool(machine.options());
  Model understated = test::model_of(machine, {"understated", mebibytes(70)});
  understated.memory = {mebibytes(10), mebibytes(10), {}};
  ASSERT_TRUE(pool.add(std::move(understated)));
  add(pool, machine, {"b", mebibytes(45)});
  ASSERT_TRUE(pool.acquire("understated"));
  const Lease lease = pool.acquire("b");
  EXPECT_TRUE(lease) << lease.message();
  EXPECT_EQ(machine.used(), mebibytes(45));
}

// Shared weights, and their charge, stay with the last session.
TEST(Pool, ChargesSharedWeightsToTheLastSession) {
  FakeMachine machine;
  Pool pool(machine.options());
  add(pool, machine, {"a", mebibytes(30), {}, {}, 2, mebibytes(1)});
  Lease first = pool.acquire("a"), second = pool.acquire("a");
  ASSERT_TRUE(second);
  EXPECT_EQ(pool.metrics().resident, mebibytes(31));
  first.discard();
  while (pool.metrics().unloads == 0) std::this_thread::yield();
  EXPECT_EQ(pool.metrics().resident, mebibytes(30));
}

TEST(Pool, ChargesAnAdditionalSessionItsLearntSize) {
  FakeMachine machine;
  Pool pool(machine.options());
  Model model = test::model_of(machine, {"a", mebibytes(30), {}, {}, 3, mebibytes(2)});
  model.additional_session = {};  // only the first session's size is stated
  ASSERT_TRUE(pool.add(std::move(model)));
  const Lease first = pool.acquire("a"), second = pool.acquire("a"), third = pool.acquire("a");
  ASSERT_TRUE(third) << third.message();
  // The second session was reserved and charged like the first, because its size was unknown. Now it is
  // known.
  EXPECT_EQ(pool.metrics().resident, mebibytes(30 + 2 + 2));
}

TEST(Pool, DoesNotLearnMemoryThatTheProgramFreesDuringALoad) {
  FakeMachine machine(mebibytes(100), mebibytes(60));
  Pool pool(machine.options());
  Model model = test::model_of(machine, {"a", mebibytes(10)});
  model.memory = {{}, {}, mebibytes(20)};
  model.load = [&, load = model.load](const std::shared_ptr<void>& sibling) {
    machine.give(mebibytes(50));
    return load(sibling);
  };
  ASSERT_TRUE(pool.add(std::move(model)));
  add(pool, machine, {"b", mebibytes(85)});
  ASSERT_TRUE(pool.acquire("a"));
  EXPECT_GT(pool.metrics().resident.count, 0);
  EXPECT_EQ(pool.metrics().used, mebibytes(60) + pool.metrics().resident);
  // The pool evicts a for b, which fits next to the program's remaining memory.
  EXPECT_TRUE(pool.acquire("b").refusal() == Refusal::too_large)
      << "the baseline was 60 MiB while a was loaded";
  EXPECT_TRUE(pool.unload("a"));
  while (pool.metrics().unloads == 0) std::this_thread::yield();
  const Lease lease = pool.acquire("b");
  EXPECT_TRUE(lease) << lease.message();  // with no model loaded, the baseline fell to 10 MiB
}

TEST(Pool, DoesNotForgetAStatedSizeAboveTheBudget) {
  FakeMachine machine;
  Pool pool(machine.options());
  add(pool, machine, {"a", mebibytes(101)});
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(pool.acquire("a").message(), ::testing::Not(HasSubstr("next measurement")));
}

TEST(Pool, MeasuresALearntSizeAboveTheBudgetAgainLater) {
  FakeMachine machine;
  Pool pool(machine.options());
  Model model = test::model_of(machine, {"a", mebibytes(10)});
  model.memory = {{}, {}, mebibytes(20)};
  model.load = [&, load = model.load](const std::shared_ptr<void>& sibling) {
    machine.take(mebibytes(95));  // allocated by another thread of the program, long enough to be measured
    return load(sibling);
  };
  ASSERT_TRUE(pool.add(std::move(model)));
  ASSERT_TRUE(pool.acquire("a"));
  machine.give(mebibytes(95));
  EXPECT_TRUE(pool.unload("a"));
  while (pool.metrics().unloads == 0) std::this_thread::yield();
  const Lease refused = pool.acquire("a");
  EXPECT_EQ(refused.refusal(), Refusal::too_large);
  EXPECT_THAT(refused.message(), HasSubstr("the next measurement is in"));
}

TEST(Pool, TreatsTimesNearTheMaximumAsUnlimited) {
  constexpr Nanoseconds kForEver{std::numeric_limits<std::int64_t>::max()};
  FakeMachine machine;
  PoolOptions options = machine.options();
  options.load_timeout = options.patience = kForEver;
  options.unload_after_idle = kForEver;
  Pool pool(std::move(options));
  add(pool, machine, {"a"});
  EXPECT_TRUE(pool.acquire("a", {kForEver, 0}));
  EXPECT_TRUE(pool.acquire("a", {kForEver, 0}));
  EXPECT_EQ(pool.metrics().loads, 1);
}

TEST(Pool, ThrowsIfMemoryCannotBeMeasured) {
  FakeMachine machine;
  PoolOptions options = machine.options();
  options.meter.read = [] { return std::nullopt; };
  EXPECT_THROW(Pool(std::move(options)), std::runtime_error);
}

TEST(Pool, SkipsAFailedReading) {
  FakeMachine machine;
  PoolOptions options = machine.options();
  std::atomic<bool> is_blind = false;
  options.meter.read = [&]() -> std::optional<Bytes> {
    return is_blind ? std::nullopt : std::optional(machine.used());
  };
  Pool pool(std::move(options));
  for (const char* name : {"a", "b", "c"}) add(pool, machine, {name, mebibytes(40)});
  ASSERT_TRUE(pool.acquire("a"));
  is_blind = true;
  for (const char* name : {"b", "c", "a"}) ASSERT_TRUE(pool.acquire(name));
  EXPECT_LE(machine.peak(), mebibytes(100));
  EXPECT_EQ(pool.metrics().resident, mebibytes(80));
}

TEST(Pool, ChargesTheReservationIfALoadCannotBeMeasured) {
  FakeMachine machine;
  PoolOptions options = machine.options();
  std::atomic<bool> is_blind = false;
  options.meter.read = [&]() -> std::optional<Bytes> {
    return is_blind ? std::nullopt : std::optional(machine.used());
  };
  Pool pool(std::move(options));
  for (const char* name : {"a", "b", "c"}) {
    Model model = test::model_of(machine, {name, mebibytes(40)});
    model.memory = {{}, {}, mebibytes(45)};
    ASSERT_TRUE(pool.add(std::move(model)));
  }
  is_blind = true;
  for (const char* name : {"a", "b", "c", "a"}) ASSERT_TRUE(pool.acquire(name));
  EXPECT_LE(machine.peak(), mebibytes(100));
  EXPECT_EQ(pool.metrics().resident, mebibytes(90));
}

TEST(Pool, ExcludesBaselineGrowthFromTheBudgetForModels) {
  FakeMachine machine;
  Pool pool(machine.options());
  add(pool, machine, {"a", mebibytes(60)});
  pool.grow_baseline([&] { machine.take(mebibytes(50)); });
  EXPECT_EQ(pool.acquire("a").refusal(), Refusal::too_large);
  EXPECT_THROW(pool.grow_baseline([] { throw std::runtime_error("no runtime"); }), std::runtime_error);
  pool.grow_baseline([&] { machine.give(mebibytes(20)); });
  EXPECT_TRUE(pool.acquire("a")) << "also after `grow` threw";
}

TEST(Pool, FailedAdditionalSessionKeepsTheModelServed) {
  FakeMachine machine;
  PoolOptions options = machine.options();
  options.retry_after = {3'600'000'000'000};
  Pool pool(std::move(options));
  std::atomic<bool> fails = false;
  add(pool, machine, {"a", mebibytes(10), {}, {}, 2, {}, nullptr, &fails});
  add(pool, machine, {"b", mebibytes(95)});
  {
    const Lease first = pool.acquire("a");
    fails = true;
    EXPECT_EQ(pool.acquire("a", {Nanoseconds{50'000'000}, 0}).refusal(), Refusal::deadline);
    while (pool.metrics().load_failures == 0) std::this_thread::yield();
    fails = false;
  }
  ASSERT_TRUE(pool.acquire("b"));  // evicts a
  EXPECT_TRUE(pool.acquire("a"));
}

TEST(Pool, FreesAllMemoryAtItsEnd) {
  FakeMachine machine;
  Pool pool(machine.options());
  add(pool, machine, {"a"});
  ASSERT_TRUE(pool.preload("a"));
  pool.shut_down();
  EXPECT_EQ(machine.used().count, 0);
  EXPECT_EQ(pool.metrics().unloads, 1);
  EXPECT_EQ(pool.acquire("a").refusal(), Refusal::shut_down);
  pool.shut_down();
}

}  // namespace
}  // namespace headroom::pool
