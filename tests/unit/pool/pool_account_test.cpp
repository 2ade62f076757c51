// What the pool charges for models, and how it corrects its account by the memory that it measures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fake_machine.h"
#include "pool/memory_meter.h"
#include "pool/pool.h"
#include "pool/pool_events.h"
#include "support/test_support.h"

namespace headroom::pool {
namespace {

using test::add;
using test::FakeMachine;
using test::session_of;
using test::SmallPool;
using ::testing::HasSubstr;

TEST_F(SmallPool, CountsMemoryThatAnUnloadDidNotFree) {
  add({"leaky", mebibytes(40), {}, mebibytes(25)});
  for (const char* name : {"a", "b", "c"}) add({name, mebibytes(25)});
  ASSERT_TRUE(pool_.acquire("leaky"));
  EXPECT_TRUE(pool_.unload("leaky"));
  while (pool_.metrics().unloads == 0) std::this_thread::yield();
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(pool_.acquire(name));
  // 25 of the 100 MiB are lost: three models of 25 MiB still fit, and nothing more.
  EXPECT_EQ(pool_.metrics().unaccounted, mebibytes(25));
  EXPECT_EQ(pool_.metrics().short_returns, 1);
  EXPECT_LE(machine_.peak(), mebibytes(100));
  EXPECT_EQ(pool_.metrics().used, mebibytes(100));
  machine_.take(mebibytes(50));
  EXPECT_EQ(pool_.acquire("leaky").refusal(), Refusal::no_room) << "75 MiB are not the pool's";
  EXPECT_TRUE(pool_.acquire("a"));
}

TEST_F(SmallPool, CountsMemoryOfTheProgramItself) {
  for (const char* name : {"a", "b"}) add({name, mebibytes(40)});
  ASSERT_TRUE(pool_.acquire("a"));
  machine_.take(mebibytes(40));
  ASSERT_TRUE(pool_.acquire("b"));
  EXPECT_LE(machine_.peak(), mebibytes(100));
  machine_.give(mebibytes(40));
  ASSERT_TRUE(pool_.acquire("a"));
  EXPECT_EQ(pool_.metrics().evictions,
            1);  // a was evicted once; when the program's memory is free again, both fit
}

// Evicting idle models frees memory beyond their charges, too. So the pool evicts them before it refuses a
// request.
TEST_F(SmallPool, EvictsModelsThatHoldMoreThanTheirCharge) {
  Model understated = test::model_of(machine_, {"understated", mebibytes(70)});
  understated.memory = {mebibytes(10), mebibytes(10), {}};
  ASSERT_TRUE(pool_.add(std::move(understated)));
  add({"b", mebibytes(45)});
  ASSERT_TRUE(pool_.acquire("understated"));
  const Lease lease = pool_.acquire("b");
  EXPECT_TRUE(lease) << lease.message();
  EXPECT_EQ(machine_.used(), mebibytes(45));
}

// Shared weights, and their charge, stay with the last sessions.
TEST_F(SmallPool, LearnsTheSizeOfAnAdditionalSession) {
  add({"a", mebibytes(30), {}, {}, 3, mebibytes(2)});
  Lease first = pool_.acquire("a"), second = pool_.acquire("a"), third = pool_.acquire("a");
  ASSERT_TRUE(third) << third.message();
  EXPECT_EQ(pool_.metrics().resident, mebibytes(30 + 2 + 2));
  first.discard();
  while (pool_.metrics().unloads == 0) std::this_thread::yield();
  EXPECT_EQ(pool_.metrics().resident, mebibytes(30 + 2));
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

TEST_F(SmallPool, DoesNotForgetAStatedSizeAboveTheBudget) {
  add({"a", mebibytes(101)});
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(pool_.acquire("a").message(), ::testing::Not(HasSubstr("next measurement")));
}

TEST(Pool, TreatsTimesNearTheMaximumAsUnlimited) {
  constexpr Nanoseconds kForEver{std::numeric_limits<std::int64_t>::max()};
  FakeMachine machine;
  Pool pool(machine.options({.load_timeout = kForEver, .unload_after_idle = kForEver, .patience = kForEver}));
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

// The sizes are stated, or the pool charges the reservation.
TEST(Pool, KeepsWithinTheBudgetWhileReadingsFail) {
  FakeMachine machine;
  PoolOptions options = machine.options();
  std::atomic<bool> is_blind = false;
  options.meter.read = [&]() -> std::optional<Bytes> {
    return is_blind ? std::nullopt : std::optional(machine.used());
  };
  Pool pool(std::move(options));
  for (const char* name : {"a", "b", "c"}) {
    add(pool, machine, {std::string("stated ") + name, mebibytes(40)});
    Model model = test::model_of(machine, {name, mebibytes(40)});
    model.memory = {{}, {}, mebibytes(45)};
    ASSERT_TRUE(pool.add(std::move(model)));
  }
  is_blind = true;
  for (const char* name : {"stated a", "stated b", "stated c"}) ASSERT_TRUE(pool.acquire(name));
  EXPECT_EQ(pool.metrics().resident, mebibytes(80));
  for (const char* name : {"a", "b", "c", "a"}) ASSERT_TRUE(pool.acquire(name));
  EXPECT_LE(machine.peak(), mebibytes(100));
  EXPECT_GE(pool.metrics().resident, mebibytes(45 + 40));
}

TEST_F(SmallPool, ExcludesBaselineGrowthFromTheBudgetForModels) {
  add({"a", mebibytes(60)});
  pool_.grow_baseline([&] { machine_.take(mebibytes(50)); });
  EXPECT_EQ(pool_.acquire("a").refusal(), Refusal::too_large);
  EXPECT_THROW(pool_.grow_baseline([] { throw std::runtime_error("no runtime"); }), std::runtime_error);
  pool_.grow_baseline([&] { machine_.give(mebibytes(20)); });
  EXPECT_TRUE(pool_.acquire("a")) << "also after `grow` threw";
}

TEST(Pool, FailedAdditionalSessionKeepsTheModelServed) {
  FakeMachine machine;
  Pool pool(machine.options({.patience = {1'000'000}, .retry_after = {3'600'000'000'000}}));
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

TEST(EventLines, FormatAnEventAsJson) {
  Event event;
  event.kind = EventKind::unloaded;
  event.time = {7};
  event.model = "a, b";
  event.took = {5};
  event.cause = UnloadCause::discarded;
  event.promised = {100};
  event.changed = {90};
  event.used = {10};
  event.budget = {1000};
  EXPECT_EQ(
      event_line(event),
      R"({"event":"unloaded","time_ns":7,"model":"a, b","took_ns":5,"promised_bytes":100,"returned_bytes":90,)"
      R"("cause":"discarded","used_bytes":10,"budget_bytes":1000})");
}

TEST(ProcessBytes, CountMemoryThatTheKernelCannotReclaim) {
  const headroom::test::TemporaryFolder folder;
  headroom::test::write_text(
      folder / "status",
      "Name:\tx\nVmRSS:\t 9000 kB\nRssAnon:\t 1000 kB\nRssFile:\t 5000 kB\nRssShmem:\t 200 kB\n"
      "VmPTE:\t 30 kB\nVmSwap:\t 4 kB\nThreads:\t3\n");
  EXPECT_EQ(own_bytes(folder / "status"), kibibytes(1000 + 200 + 30 + 4 + 3 * 16));
}

TEST(ProcessBytes, AreAbsentIfTheKernelLacksTheFields) {
  const headroom::test::TemporaryFolder folder;
  headroom::test::write_text(folder / "status", "Name:\tx\nVmRSS:\t 9000 kB\nThreads:\t3\n");
  EXPECT_EQ(own_bytes(folder / "status"), std::nullopt);
  EXPECT_EQ(own_bytes(folder / "absent"), std::nullopt);
}

TEST(ProcessBytes, GrowWithTouchedPages) {
  const auto before = own_bytes();
  if (!before) GTEST_SKIP() << "this kernel does not report these fields";
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memset(memory, 1, kBytes);
  EXPECT_GE(*own_bytes() - *before, mebibytes(31));
  ::munmap(memory, kBytes);
  EXPECT_LE(*own_bytes() - *before, mebibytes(16));
}

}  // namespace
}  // namespace headroom::pool
