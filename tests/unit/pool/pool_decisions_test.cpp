// Tests PoolState's decisions at times that the test sets.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "pool/pool_state.h"

namespace headroom::pool {
namespace {

constexpr Nanoseconds kMillisecond{1'000'000};

Nanoseconds ms(std::int64_t count) { return {count * kMillisecond.count}; }

class PoolDecisions : public ::testing::Test {
 protected:
  explicit PoolDecisions(Nanoseconds load_delay = {}) : state_(options(load_delay)) {}

  static PoolOptions options(Nanoseconds load_delay = {}) {
    PoolOptions options;
    options.budget = mebibytes(100);
    options.margin = Bytes{};
    options.patience = ms(250);
    options.load_delay = load_delay;
    return options;
  }

  std::size_t add(const std::string& name, Bytes size) {
    state_.models.emplace_back();
    state_.models.back().model.name = name;
    state_.models.back().model.memory = {size, size, {}};
    return state_.models.size() - 1;
  }

  // Requests the model, loads it in `took` and leases it for `used`. Both advance the time.
  void use(std::size_t model, Nanoseconds took, Nanoseconds used) {
    state_.policy.requested(model);
    LoadedSession* session = state_.take_ready(model, now_);
    if (session == nullptr) {
      Waiter waiter;
      ask(waiter, model);
      load(model, took);
      session = waiter.session;
    }
    ASSERT_NE(session, nullptr);
    now_ += used;
    state_.release(*session, now_);
  }

  void ask(Waiter& waiter, std::size_t model) {
    waiter.model = model;
    waiter.arrived = now_;
    waiter.number = state_.waiters_so_far++;
    state_.waiters.push_back(&waiter);
  }

  void load(std::size_t model, Nanoseconds took) {
    const Bytes size = state_.models[model].model.memory.run_peak;
    load(model, took, size, size);
  }
  // The process grows by `growth`, with this peak if it was watched.
  void load(std::size_t model, Nanoseconds took, Bytes growth, std::optional<Bytes> peak) {
    const Step step = state_.next_step(now_);
    ASSERT_EQ(step.kind, Step::Kind::load);
    ASSERT_EQ(step.model, model);
    now_ += took;
    state_.finish_load(step, std::make_shared<int>(0), growth, peak, took, now_);
  }

  // Expects the next step to unload one session, of this model.
  void expect_unload(Nanoseconds at, std::size_t model) {
    const Step unload = state_.next_step(at);
    ASSERT_EQ(unload.kind, Step::Kind::unload);
    ASSERT_EQ(unload.sessions.size(), 1U);
    EXPECT_EQ(unload.sessions.front().model, model);
  }

  Nanoseconds now_ = ms(1000);
  PoolState state_;
};

// `rare` was loaded for one request and is still leased when `next` needs memory. `often` is idle only
// because its requests are served at once.
class LeasedRareModel : public PoolDecisions {
 protected:
  LeasedRareModel() {
    for (int i = 0; i < 10; ++i) use(often_, ms(50), ms(5));
    use(rare_, ms(50), ms(5));
    leased_ = state_.take_ready(rare_, now_);
    EXPECT_NE(leased_, nullptr);
    ask(waiter_, next_);
  }
  std::size_t often_ = add("often", mebibytes(50)), rare_ = add("rare", mebibytes(50)),
              next_ = add("next", mebibytes(50));
  LoadedSession* leased_ = nullptr;
  Waiter waiter_;
};

TEST_F(LeasedRareModel, IsWaitedForInsteadOfEvictingAnOftenUsedModel) {
  const Step wait = state_.next_step(now_ + ms(1));
  EXPECT_EQ(wait.kind, Step::Kind::wait);
  ASSERT_TRUE(wait.wake_at);
  EXPECT_EQ(wait.wake_at->count, (now_ + ms(20)).count) << "four times its usual lease time";
  EXPECT_EQ(state_.take_ready(often_, now_), &state_.models[often_].sessions.front())
      << "`often` must be served meanwhile";
  state_.release(state_.models[often_].sessions.front(), now_ + ms(2));
  state_.release(*leased_, now_ + ms(5));
  expect_unload(now_ + ms(5), rare_);
}

TEST_F(LeasedRareModel, IsNotWaitedForDuringAnUnusuallyLongLease) { expect_unload(now_ + ms(20), often_); }

TEST_F(LeasedRareModel, IsNotEvictedIfOthersWaitForIt) {
  Waiter also_rare;
  ask(also_rare, rare_);
  expect_unload(now_ + ms(1), often_);
}

// `used` is leased and `idle` is not when `next` is requested, with a load delay of 200 ms.
class DelayedLoad : public PoolDecisions {
 protected:
  DelayedLoad() : PoolDecisions(ms(200)) {}
  // Returns the decision `later` after the request, and takes only one decision.
  Step step(Nanoseconds later, std::optional<Nanoseconds> deadline, bool is_released) {
    const std::size_t used = add("used", mebibytes(40)), idle = add("idle", mebibytes(40)),
                      next = add("next", mebibytes(50));
    Waiter first, second;
    ask(first, used);
    load(used, {});
    ask(second, idle);
    load(idle, {});
    state_.release(*second.session, now_);
    ask(third_, next);
    third_.deadline = deadline;
    if (is_released) state_.release(*first.session, now_);
    return state_.next_step(now_ + later);
  }
  Waiter third_;
};

TEST_F(DelayedLoad, EvictsNothingWhileSessionsAreInUse) {
  const Step wait = step(ms(1), {}, false);
  EXPECT_EQ(wait.kind, Step::Kind::wait);
  ASSERT_TRUE(wait.wake_at);
  EXPECT_EQ(wait.wake_at->count, (now_ + ms(200)).count);
}

TEST_F(DelayedLoad, EvictsAfterTheDelay) { EXPECT_EQ(step(ms(200), {}, false).kind, Step::Kind::unload); }

TEST_F(DelayedLoad, EvictsAtOnceForARequestWithADeadline) {
  EXPECT_EQ(step(ms(1), ms(500), false).kind, Step::Kind::unload);
}

TEST_F(DelayedLoad, EvictsAtOnceWhenNoSessionIsInUse) {
  EXPECT_EQ(step(ms(1), {}, true).kind, Step::Kind::unload);
}

// A real process always has a few KiB beyond its account.
TEST_F(PoolDecisions, WaiterBehindAClaimWaitsForItsTurn) {
  const std::size_t kept = add("kept", mebibytes(60)), x = add("x", mebibytes(10)),
                    y = add("y", mebibytes(10)), a = add("a", mebibytes(60)), b = add("b", mebibytes(50));
  for (const std::size_t model : {kept, x, y}) use(model, ms(50), ms(5));
  ASSERT_NE(state_.take_ready(kept, now_), nullptr);
  state_.account.unaccounted = kibibytes(4);
  Waiter first, second;
  ask(first, a);
  ask(second, b);
  EXPECT_EQ(state_.next_step(now_ + ms(300)).kind, Step::Kind::wait)
      << "evicting x and y would not free enough";
  EXPECT_TRUE(state_.models[kept].is_claimed);
  EXPECT_EQ(state_.next_step(now_ + ms(120'000)).kind, Step::Kind::wait);
  EXPECT_FALSE(second.is_answered()) << "it fits after the first one";
}

// The claimed lease may never end. So a claim holds for eight patiences, and then others may use the model
// for one.
TEST_F(PoolDecisions, ClaimIsSuspendedInEveryNinthPatience) {
  const std::size_t kept = add("kept", mebibytes(50)), idle = add("idle", mebibytes(30)),
                    waits = add("waits", mebibytes(95));
  use(idle, ms(50), ms(5));
  use(kept, ms(50), ms(5));
  ASSERT_NE(state_.take_ready(kept, now_), nullptr);
  Waiter waiter;
  ask(waiter, waits);
  const Nanoseconds asked = now_;
  const auto is_lent = [&](Nanoseconds at) {
    EXPECT_EQ(state_.next_step(at).kind, Step::Kind::wait);
    LoadedSession* session = state_.take_ready(idle, at);
    if (session != nullptr) state_.release(*session, at);
    return session != nullptr;
  };
  EXPECT_TRUE(is_lent(asked + ms(249))) << "the waiter still has patience";
  EXPECT_FALSE(is_lent(asked + ms(250)));
  EXPECT_FALSE(is_lent(asked + ms(250 * 9 - 1)));
  EXPECT_TRUE(is_lent(asked + ms(250 * 9)));
  EXPECT_TRUE(is_lent(asked + ms(250 * 10 - 1)));
  EXPECT_FALSE(is_lent(asked + ms(250 * 10)));
}

// A claim leaves unneeded memory to others.
TEST_F(PoolDecisions, LoadsOthersIntoMemoryThatIsNotClaimed) {
  const std::size_t kept = add("kept", mebibytes(60)), waits = add("waits", mebibytes(60)),
                    large = add("large", mebibytes(41)), beside = add("beside", mebibytes(30));
  use(kept, ms(50), ms(5));
  ASSERT_NE(state_.take_ready(kept, now_), nullptr);
  Waiter first, second, third;
  ask(first, waits);
  ask(second, large);  // 40 MiB are free
  ask(third, beside);
  const Step step = state_.next_step(now_ + ms(300));
  ASSERT_EQ(step.kind, Step::Kind::load);
  EXPECT_EQ(step.model, beside);
  EXPECT_TRUE(state_.models[kept].is_claimed);
}

TEST_F(PoolDecisions, EvictsWhenTheProgramExceedsTheBudget) {
  const std::size_t often = add("often", mebibytes(40)), rare = add("rare", mebibytes(40));
  for (int i = 0; i < 10; ++i) use(often, ms(50), ms(5));
  use(rare, ms(50), ms(5));
  state_.account.unaccounted = mebibytes(20);
  EXPECT_EQ(state_.next_step(now_).kind, Step::Kind::wait) << "used memory equals the budget exactly";
  state_.account.unaccounted = mebibytes(30);
  expect_unload(now_, rare);
  LoadedSession* leased = state_.take_ready(often, now_);
  ASSERT_NE(leased, nullptr);
  EXPECT_EQ(state_.next_step(now_).kind, Step::Kind::wait) << "leased models must stay";
}

// The shared weights stay for the session that is leased.
TEST_F(PoolDecisions, IdleSessionFreesLittleWhileASiblingIsLeased) {
  const std::size_t shared = add("shared", mebibytes(30)), other = add("other", mebibytes(20)),
                    next = add("next", mebibytes(60));
  state_.models[shared].model.most_sessions = 2;
  use(shared, ms(5), ms(5));
  for (int i = 0; i < 10; ++i) use(other, ms(500), ms(5));  // by far the worse choice to evict
  LoadedSession* first = state_.take_ready(shared, now_);
  Waiter second;
  ask(second, shared);
  load(shared, ms(1), mebibytes(1), mebibytes(1));
  ASSERT_NE(second.session, nullptr);
  state_.release(*first, now_);
  Waiter waiter;
  ask(waiter, next);                     // 49 of 100 MiB are free: 11 are missing
  expect_unload(now_ + ms(100), other);  // the idle session would free only 1 MiB, which does not help
  EXPECT_GE(state_.account.budget - state_.account.charged, mebibytes(60));
}

TEST_F(PoolDecisions, ForgetsALearntSizeAboveTheBudgetAfterAMinute) {
  const std::size_t a = add("a", {});
  state_.models[a].learnt = {mebibytes(120), mebibytes(120), {}};
  std::string message;
  EXPECT_EQ(state_.refuse_at_once(state_.models[a], now_, message), Refusal::too_large);
  EXPECT_NE(message.find("the next measurement is in"), std::string::npos) << message;
  EXPECT_EQ(state_.refuse_at_once(state_.models[a], now_ + ms(59'999), message), Refusal::too_large);
  EXPECT_EQ(state_.refuse_at_once(state_.models[a], now_ + ms(60'000), message), Refusal::none);
  // The size is unknown now: the next load reserves all available memory.
  const auto load_anew = [&](Bytes size) {
    Waiter waiter;
    ask(waiter, a);
    const Step step = state_.next_step(now_ + ms(60'000));
    ASSERT_EQ(step.kind, Step::Kind::load);
    EXPECT_EQ(state_.account.loading, mebibytes(100));
    state_.finish_load(step, std::make_shared<int>(0), size, size, ms(5), now_ + ms(60'000));
    ASSERT_NE(waiter.session, nullptr);
    state_.release(*waiter.session, now_ + ms(60'000));
    state_.unload_idle(a);
    state_.finish_unload(state_.next_step(now_ + ms(60'000)), size, ms(1));
  };
  load_anew(mebibytes(120));  // the model really is too large
  EXPECT_EQ(state_.refuse_at_once(state_.models[a], now_ + ms(70'000), message), Refusal::too_large);
  EXPECT_EQ(state_.refuse_at_once(state_.models[a], now_ + ms(189'000), message), Refusal::too_large);
  EXPECT_EQ(state_.refuse_at_once(state_.models[a], now_ + ms(190'000), message), Refusal::none);
  load_anew(mebibytes(30));
  EXPECT_EQ(state_.models[a].learnt.load_peak, mebibytes(30));
  EXPECT_EQ(state_.models[a].times_too_large, 0);
}

// Claimed memory cannot be used while another model loads, so requests for the claimed model are served.
TEST_F(PoolDecisions, ClaimDoesNotWithholdAModelDuringAnotherLoad) {
  const std::size_t often = add("often", mebibytes(60)), large = add("large", mebibytes(80)),
                    small = add("small", mebibytes(20));
  use(often, ms(50), ms(5));
  LoadedSession* leased = state_.take_ready(often, now_);
  ASSERT_NE(leased, nullptr);
  Waiter first, second;
  ask(first, large);
  ask(second, small);
  now_ += ms(300);
  const Step load = state_.next_step(now_);
  ASSERT_EQ(load.kind, Step::Kind::load);
  ASSERT_EQ(load.model, small);
  EXPECT_TRUE(state_.models[often].is_claimed) << "claimed for the large model";
  state_.release(*leased, now_ + ms(1));
  LoadedSession* meanwhile = state_.take_ready(often, now_ + ms(2));
  ASSERT_NE(meanwhile, nullptr) << "the model is loaded, and its memory could not be used now";
  state_.finish_load(load, std::make_shared<int>(0), mebibytes(20), mebibytes(20), ms(3000), now_ + ms(3000));
  EXPECT_EQ(state_.next_step(now_ + ms(3000)).kind, Step::Kind::wait);
  state_.release(*meanwhile, now_ + ms(3001));
  EXPECT_EQ(state_.take_ready(often, now_ + ms(3001)), nullptr) << "claimed again";
}

// An arena keeps what the first large input needed. The model's charge covers that.
TEST_F(PoolDecisions, CountsStatedRunMemoryOnceWhenItIsAllocated) {
  const std::size_t a = add("a", mebibytes(60));
  Waiter waiter;
  ask(waiter, a);
  load(a, ms(5), mebibytes(10), mebibytes(10));
  state_.metrics.measured = mebibytes(10);
  state_.apply_reading(mebibytes(60));  // the run allocated the other 50 MiB
  EXPECT_EQ(state_.account.used(), mebibytes(60));
  state_.apply_reading(mebibytes(75));  // and the program allocated 15 MiB
  EXPECT_EQ(state_.account.used(), mebibytes(75));
  EXPECT_EQ(state_.account.unaccounted, mebibytes(15));
}

TEST_F(PoolDecisions, ReservesTheEstimateIfTheLoadPeakIsNotWatched) {
  const std::size_t a = add("a", {});
  state_.models[a].model.memory.estimate = mebibytes(50);
  Waiter waiter;
  ask(waiter, a);
  load(a, ms(5), mebibytes(10), std::nullopt);
  EXPECT_EQ(state_.models[a].learnt.load_peak, mebibytes(50));
  EXPECT_EQ(state_.models[a].learnt.run_peak, mebibytes(10));
  state_.models[a].model.keeps_run_memory = false;
  state_.release(*waiter.session, now_);
  state_.unload_idle(a);
  state_.finish_unload(state_.next_step(now_), mebibytes(10), ms(1));
  Waiter again;
  ask(again, a);
  load(a, ms(5), mebibytes(10), std::nullopt);
  EXPECT_EQ(state_.models[a].sessions.front().charge, mebibytes(50)) << "each run may need it again";
}

// If both sizes are stated, nothing is watched and nothing is estimated.
TEST_F(PoolDecisions, ChargesStatedRunPeakEvenIfTheSessionKeepsNoRunMemory) {
  const auto charge_of = [&](const std::string& name, ModelMemory stated) {
    const std::size_t model = add(name, {});
    state_.models[model].model.memory = stated;
    state_.models[model].model.keeps_run_memory = false;
    Waiter waiter;
    ask(waiter, model);
    load(model, ms(5), mebibytes(4), std::nullopt);
    return state_.models[model].sessions.front().charge;
  };
  EXPECT_EQ(charge_of("both", {mebibytes(20), mebibytes(10), {}}), mebibytes(10));
  EXPECT_EQ(charge_of("load", {mebibytes(20), {}, {}}), mebibytes(20)) << "the load includes warm-up runs";
}

}  // namespace
}  // namespace headroom::pool
