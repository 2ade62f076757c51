// The pool's use of its budget, one request after another.
#include "pool/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using test::SmallPool;
using ::testing::HasSubstr;

constexpr Request kAtOnce{Nanoseconds{0}, 0};

TEST_F(SmallPool, LoadsOnceAndServesFromMemory) {
  add({"a"});
  void* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    const Lease lease = pool_.acquire("a");
    ASSERT_TRUE(lease) << lease.message();
    EXPECT_EQ(lease.was_ready(), i > 0);
    if (i == 0) first = lease.session();
    EXPECT_EQ(lease.session(), first);
  }
  const Metrics metrics = pool_.metrics();
  EXPECT_EQ(metrics.requests, 3);
  EXPECT_EQ(metrics.hits, 2);
  EXPECT_EQ(metrics.loads, 1);
  EXPECT_EQ(metrics.resident, mebibytes(10));
  EXPECT_EQ(metrics.reload_time.count, 0);
}

TEST_F(SmallPool, RefusesUnknownAndDuplicateNames) {
  add({"a"});
  EXPECT_FALSE(pool_.add(test::model_of(machine_, {"a"})));
  EXPECT_FALSE(pool_.add(Model{.name = "empty", .load = {}, .memory = {}}));
  const Lease lease = pool_.acquire("b");
  EXPECT_EQ(lease.refusal(), Refusal::unknown_model);
  EXPECT_THAT(lease.message(), HasSubstr("b"));
  EXPECT_FALSE(pool_.pin("b"));
  EXPECT_FALSE(pool_.unload("b"));
}

TEST(Pool, EvictsToStayWithinTheBudget) {
  FakeMachine machine(mebibytes(100), mebibytes(20));
  Pool pool(machine.options());
  for (const char* name : {"a", "b", "c"}) add(pool, machine, {name, mebibytes(30)});
  for (int round = 0; round < 3; ++round)
    for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(pool.acquire(name));
  EXPECT_LE(machine.peak(), mebibytes(100));
  EXPECT_LE(pool.metrics().peak_used, mebibytes(100));
  EXPECT_GT(pool.metrics().evictions, 0);
  EXPECT_EQ(pool.metrics().unloads, pool.metrics().evictions);
  EXPECT_EQ(pool.metrics().returned, pool.metrics().promised);
}

TEST_F(SmallPool, ReservesTheLoadPeak) {
  add({"small", mebibytes(30)});
  add({"peaky", mebibytes(10), mebibytes(80)});
  ASSERT_TRUE(pool_.acquire("small"));
  ASSERT_TRUE(pool_.acquire("peaky"));  // 30 + 10 MiB fit, 30 + 80 MiB do not
  EXPECT_EQ(pool_.metrics().evictions, 1);
  EXPECT_LE(machine_.peak(), mebibytes(100));
}

TEST(Pool, RefusesModelsLargerThanTheBudgetWithoutItsMargin) {
  FakeMachine machine(mebibytes(100), mebibytes(20));
  Pool pool(machine.options({.margin = mebibytes(10), .patience = {1'000'000}}));
  add(pool, machine, {"large", mebibytes(20), mebibytes(71)});
  for (const char* name : {"a", "b"}) add(pool, machine, {name, mebibytes(36)});
  const Lease lease = pool.acquire("large");
  EXPECT_EQ(lease.refusal(), Refusal::too_large);
  EXPECT_THAT(lease.message(), HasSubstr("71.0 MiB"));
  ASSERT_TRUE(pool.acquire("a"));
  ASSERT_TRUE(pool.acquire("b"));
  EXPECT_EQ(pool.metrics().evictions, 1);
}

TEST_F(SmallPool, RefusesAtTheDeadlineWithAReason) {
  add({"a"});
  EXPECT_EQ(pool_.acquire("a", kAtOnce).refusal(), Refusal::deadline);  // not loaded
  const Lease held = pool_.acquire("a");
  const Lease refused = pool_.acquire("a", {Nanoseconds{5'000'000}, 0});
  EXPECT_EQ(refused.refusal(), Refusal::deadline);
  EXPECT_THAT(refused.message(), HasSubstr("in use"));
  EXPECT_EQ(pool_.metrics().refusals, 2);
}

TEST_F(SmallPool, PreloadsOnce) {
  add({"a"});
  ASSERT_TRUE(pool_.preload("a"));
  EXPECT_EQ(pool_.metrics().requests, 0);
  const Lease lease = pool_.acquire("a", kAtOnce);
  ASSERT_TRUE(lease);
  EXPECT_TRUE(pool_.preload("a")) << "and does not wait for its lease to end";
  EXPECT_EQ(pool_.metrics().loads, 1);
}

TEST_F(SmallPool, KeepsPinnedModels) {
  add({"pinned", mebibytes(60)});
  add({"other", mebibytes(50)});
  EXPECT_TRUE(pool_.pin("pinned"));
  ASSERT_TRUE(pool_.preload("pinned"));
  const Lease refused = pool_.acquire("other");
  EXPECT_EQ(refused.refusal(), Refusal::no_room);
  EXPECT_THAT(refused.message(), HasSubstr("pinned models 60.0 MiB"));
  {
    const Lease busy = pool_.acquire("pinned");
    EXPECT_EQ(pool_.acquire("other").refusal(), Refusal::no_room) << "its end would free nothing";
  }
  EXPECT_TRUE(pool_.pin("pinned", false));
  EXPECT_TRUE(pool_.acquire("other"));
}

TEST_F(SmallPool, LearnsTheSizeOfAModel) {
  Model model = test::model_of(machine_, {"a", mebibytes(33)});
  model.memory = {{}, {}, mebibytes(90)};
  ASSERT_TRUE(pool_.add(std::move(model)));
  ASSERT_TRUE(pool_.acquire("a"));
  EXPECT_EQ(pool_.metrics().resident, mebibytes(33));
  EXPECT_EQ(pool_.metrics().peak_used, mebibytes(90));  // the reservation for the first load
}

TEST(Pool, EvictsIdleModelsWhenTheProgramExceedsTheBudget) {
  FakeMachine machine(mebibytes(100));
  Pool pool(machine.options());
  add(pool, machine, {"a", mebibytes(40)});
  ASSERT_TRUE(pool.preload("a"));
  machine.take(mebibytes(80));
  while (pool.metrics().unloads == 0) std::this_thread::yield();  // without any request
  EXPECT_EQ(pool.metrics().resident.count, 0);
}

TEST(Pool, DoesNotEvictAPreloadedModelFirst) {
  FakeMachine machine;
  Pool pool(machine.options({.patience = {1'000'000}, .eviction = Eviction::least_recently_used}));
  for (const char* name : {"old", "preloaded", "next"}) add(pool, machine, {name, mebibytes(40)});
  ASSERT_TRUE(pool.acquire("old"));
  ASSERT_TRUE(pool.preload("preloaded"));
  ASSERT_TRUE(pool.acquire("next"));
  EXPECT_TRUE(pool.acquire("preloaded", kAtOnce));
}

TEST(Pool, ReservesTheEstimateForAFirstLoadWithAStatedRunPeak) {
  FakeMachine machine(mebibytes(100));
  Pool pool(machine.options());
  Model model = test::model_of(machine, {"a", mebibytes(10)});
  model.memory = {{}, mebibytes(10), mebibytes(200)};
  ASSERT_TRUE(pool.add(std::move(model)));
  EXPECT_EQ(pool.acquire("a").refusal(), Refusal::too_large);
}

TEST(Pool, ChargesTheLoadPeakToASessionThatKeepsNoRunMemory) {
  FakeMachine machine;
  PoolOptions options = machine.options();
  options.meter.watch_peak = [] { return [] { return mebibytes(25); }; };
  Pool pool(std::move(options));
  Model model = test::model_of(machine, {"a", mebibytes(10), mebibytes(25)});
  model.memory = {{}, {}, mebibytes(30)};
  model.keeps_run_memory = false;
  ASSERT_TRUE(pool.add(std::move(model)));
  const Lease lease = pool.acquire("a");
  ASSERT_TRUE(lease) << lease.message();
  EXPECT_EQ(pool.metrics().resident, mebibytes(25));
}

TEST(Pool, LoadsAnAdditionalSessionIfMemoryIsFree) {
  FakeMachine machine(mebibytes(62));
  Pool pool(machine.options());
  add(pool, machine, {"a", mebibytes(30), {}, {}, 4, mebibytes(12)});
  const Lease first = pool.acquire("a"), second = pool.acquire("a"), third = pool.acquire("a");
  ASSERT_TRUE(third) << third.message();
  EXPECT_FALSE(session_of(first).has_sibling);
  EXPECT_TRUE(session_of(third).has_sibling);
  EXPECT_NE(second.session(), third.session());
  EXPECT_EQ(machine.used(), mebibytes(54));
  EXPECT_EQ(pool.acquire("a", {Nanoseconds{5'000'000}, 0}).refusal(),
            Refusal::deadline);  // 66 MiB would not fit
}

TEST(Pool, UnloadsModelsThatAreIdleTooLong) {
  FakeMachine machine;
  Pool pool(machine.options({.unload_after_idle = Nanoseconds{1'000'000}, .patience = {1'000'000}}));
  add(pool, machine, {"a"});
  add(pool, machine, {"pinned"});
  EXPECT_TRUE(pool.pin("pinned"));
  ASSERT_TRUE(pool.preload("pinned"));
  { const Lease lease = pool.acquire("a"); }
  while (pool.metrics().unloads == 0) std::this_thread::yield();
  EXPECT_EQ(machine.used(), mebibytes(10));
  EXPECT_EQ(pool.metrics().evictions, 0);
}

TEST(Pool, LeaseCanOutliveThePool) {
  FakeMachine machine;
  Lease lease;
  {
    Pool pool(machine.options());
    add(pool, machine, {"a"});
    add(pool, machine, {"b"});
    lease = pool.acquire("a");
    ASSERT_TRUE(pool.acquire("b"));
  }
  EXPECT_EQ(machine.used(), mebibytes(10));
  EXPECT_EQ(session_of(lease).size, mebibytes(10));
  lease.release();
  EXPECT_EQ(machine.used().count, 0);
}

// Returns why model "a" was freed after `act`.
std::string cause_of_unload(const std::function<void(Pool&)>& act, std::optional<Nanoseconds> idle = {}) {
  FakeMachine machine;
  PoolOptions options = machine.options();
  options.unload_after_idle = idle;
  std::string cause;
  std::mutex mutex;
  options.observer = [&](const Event& event) {
    const std::lock_guard lock(mutex);
    if (event.kind == EventKind::unloaded && event.model == "a") cause = name_of(event.cause);
  };
  Pool pool(std::move(options));
  for (const char* name : {"a", "b"}) add(pool, machine, {name, mebibytes(60)});
  EXPECT_TRUE(pool.acquire("a"));
  act(pool);
  while (pool.metrics().unloads == 0) std::this_thread::yield();
  EXPECT_EQ(machine.used(), pool.metrics().resident);
  pool.shut_down();
  EXPECT_EQ(machine.used().count, 0);
  const std::lock_guard lock(mutex);
  return cause;
}

TEST(Pool, FreesASessionAndReportsWhy) {
  EXPECT_EQ(cause_of_unload([](Pool& pool) { EXPECT_TRUE(pool.acquire("b")); }), "evicted");
  EXPECT_EQ(cause_of_unload([](Pool& pool) { EXPECT_TRUE(pool.unload("a")); }), "asked");
  EXPECT_EQ(cause_of_unload([](Pool& pool) { pool.acquire("a").discard(); }), "discarded");
  EXPECT_EQ(cause_of_unload([](Pool&) {}, Nanoseconds{1'000'000}), "idle");
  EXPECT_EQ(cause_of_unload([](Pool& pool) { pool.shut_down(); }), "end");
}

TEST(Pool, ObserverCanCallThePool) {
  FakeMachine machine;
  PoolOptions options = machine.options();
  std::vector<Event> events;
  const Pool* asked = nullptr;
  std::mutex mutex;
  options.observer = [&](const Event& event) {
    const std::lock_guard lock(mutex);
    events.push_back(event);
    if (asked != nullptr) {
      EXPECT_EQ(asked->metrics().budget, mebibytes(100));
    }
  };
  {
    Pool pool(std::move(options));
    asked = &pool;
    add(pool, machine, {"a", mebibytes(60)});
    add(pool, machine, {"b", mebibytes(60)});
    ASSERT_TRUE(pool.acquire("a"));
    ASSERT_TRUE(pool.acquire("b"));
    EXPECT_FALSE(pool.acquire("c"));
  }
  const std::lock_guard lock(mutex);
  std::vector<std::string> told;
  for (const Event& event : events) told.push_back(std::string(name_of(event.kind)) + " " + event.model);
  EXPECT_THAT(
      told, ::testing::UnorderedElementsAre("loaded a", "unloaded a", "loaded b", "refused c", "unloaded b"));
  for (const Event& event : events)
    if (event.kind == EventKind::unloaded) {
      EXPECT_EQ(event.changed, mebibytes(60));
    }
}

}  // namespace
}  // namespace headroom::pool
