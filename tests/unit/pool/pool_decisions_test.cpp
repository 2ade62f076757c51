// What is decided, at times that the test says.
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
  PoolDecisions() : state_(options()) {}

  static PoolOptions options() {
    PoolOptions options;
    options.budget = mebibytes(100);
    options.margin = Bytes{};
    options.patience = ms(250);
    return options;
  }

  std::size_t add(const std::string& name, Bytes size) {
    state_.models.emplace_back();
    state_.models.back().model.name = name;
    state_.models.back().model.memory = {size, size, {}};
    return state_.models.size() - 1;
  }

  // Asked for, loaded in `took` and used for `used`; the time goes on by both.
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
    const Step step = state_.next_step(now_);
    ASSERT_EQ(step.kind, Step::Kind::load);
    ASSERT_EQ(step.model, model);
    now_ += took;
    const Bytes size = state_.models[model].model.memory.run_peak;
    state_.finish_load(step, std::make_shared<int>(0), size, size, took, now_);
  }

  Nanoseconds now_ = ms(1000);
  PoolState state_;
};

// `rare` was loaded for one request and is still in use when there must be room for `next`; `often` is idle
// only because whoever asks for it has it at once.
TEST_F(PoolDecisions, WaitForALeaseThatEndsSoonRatherThanGiveUpWhatIsUsedOften) {
  const std::size_t often = add("often", mebibytes(50)), rare = add("rare", mebibytes(50)),
                    next = add("next", mebibytes(50));
  for (int i = 0; i < 10; ++i) use(often, ms(50), ms(5));
  use(rare, ms(50), ms(5));
  LoadedSession* leased = state_.take_ready(rare, now_);
  ASSERT_NE(leased, nullptr);
  Waiter waiter;
  ask(waiter, next);
  const Step wait = state_.next_step(now_ + ms(1));
  EXPECT_EQ(wait.kind, Step::Kind::wait);
  ASSERT_TRUE(wait.wake_at);
  EXPECT_EQ(wait.wake_at->count, (now_ + ms(20)).count) << "four times as long as it is usually held";
  EXPECT_EQ(state_.take_ready(often, now_), &state_.models[often].sessions.front())
      << "and is served meanwhile";
  state_.release(state_.models[often].sessions.front(), now_ + ms(2));
  state_.release(*leased, now_ + ms(5));
  const Step unload = state_.next_step(now_ + ms(5));
  ASSERT_EQ(unload.kind, Step::Kind::unload);
  EXPECT_EQ(unload.sessions.front().model, rare);
}

// A real process always has a few KiB beyond its books.
TEST_F(PoolDecisions, WhoStandsBehindAClaimWaitsForItsTurn) {
  const std::size_t kept = add("kept", mebibytes(60)), x = add("x", mebibytes(10)),
                    y = add("y", mebibytes(10)), a = add("a", mebibytes(60)), b = add("b", mebibytes(50));
  for (const std::size_t model : {kept, x, y}) use(model, ms(50), ms(5));
  ASSERT_NE(state_.take_ready(kept, now_), nullptr);
  state_.books.unaccounted = kibibytes(4);
  Waiter first, second;
  ask(first, a);
  ask(second, b);
  EXPECT_EQ(state_.next_step(now_ + ms(300)).kind, Step::Kind::wait) << "giving up x and y would not do";
  EXPECT_TRUE(state_.models[kept].is_claimed);
  EXPECT_EQ(state_.next_step(now_ + ms(120'000)).kind, Step::Kind::wait);
  EXPECT_FALSE(second.is_answered()) << "there is room for it behind the first";
}

TEST_F(PoolDecisions, WhatTheProgramTookBeyondTheBudgetIsMadeGood) {
  const std::size_t often = add("often", mebibytes(40)), rare = add("rare", mebibytes(40));
  for (int i = 0; i < 10; ++i) use(often, ms(50), ms(5));
  use(rare, ms(50), ms(5));
  state_.books.unaccounted = mebibytes(20);
  EXPECT_EQ(state_.next_step(now_).kind, Step::Kind::wait) << "to the byte";
  state_.books.unaccounted = mebibytes(30);
  const Step unload = state_.next_step(now_);
  ASSERT_EQ(unload.kind, Step::Kind::unload);
  ASSERT_EQ(unload.sessions.size(), 1U);
  EXPECT_EQ(unload.sessions.front().model, rare);
  LoadedSession* leased = state_.take_ready(often, now_);
  ASSERT_NE(leased, nullptr);
  EXPECT_EQ(state_.next_step(now_).kind, Step::Kind::wait) << "what is used stays";
}

TEST_F(PoolDecisions, ALeaseThatTakesUnusuallyLongIsNotWaitedFor) {
  const std::size_t often = add("often", mebibytes(50)), rare = add("rare", mebibytes(50)),
                    next = add("next", mebibytes(50));
  for (int i = 0; i < 10; ++i) use(often, ms(50), ms(5));
  use(rare, ms(50), ms(5));
  ASSERT_NE(state_.take_ready(rare, now_), nullptr);
  Waiter waiter;
  ask(waiter, next);
  const Step unload = state_.next_step(now_ + ms(20));
  ASSERT_EQ(unload.kind, Step::Kind::unload);
  EXPECT_EQ(unload.sessions.front().model, often);
}

TEST_F(PoolDecisions, WhatOthersWaitForIsNotTheBetterOneToGiveUp) {
  const std::size_t often = add("often", mebibytes(50)), rare = add("rare", mebibytes(50)),
                    next = add("next", mebibytes(50));
  for (int i = 0; i < 10; ++i) use(often, ms(50), ms(5));
  use(rare, ms(50), ms(5));
  ASSERT_NE(state_.take_ready(rare, now_), nullptr);
  Waiter waiter, also_rare;
  ask(waiter, next);
  ask(also_rare, rare);
  const Step unload = state_.next_step(now_ + ms(1));
  ASSERT_EQ(unload.kind, Step::Kind::unload);
  EXPECT_EQ(unload.sessions.front().model, often);
}

TEST_F(PoolDecisions, ALearntSizeAboveTheBudgetIsForgottenAfterAMinute) {
  const std::size_t a = add("a", {});
  state_.models[a].learnt = {mebibytes(120), mebibytes(120), {}};
  std::string message;
  EXPECT_EQ(state_.refuse_at_once(state_.models[a], now_, message), Refusal::too_large);
  EXPECT_EQ(state_.refuse_at_once(state_.models[a], now_ + ms(59'999), message), Refusal::too_large);
  EXPECT_EQ(state_.refuse_at_once(state_.models[a], now_ + ms(60'000), message), Refusal::none);
  state_.models[a].learnt = {mebibytes(120), mebibytes(120), {}};  // it really is
  EXPECT_EQ(state_.refuse_at_once(state_.models[a], now_ + ms(70'000), message), Refusal::too_large);
  EXPECT_EQ(state_.refuse_at_once(state_.models[a], now_ + ms(189'000), message), Refusal::too_large);
  EXPECT_EQ(state_.refuse_at_once(state_.models[a], now_ + ms(190'000), message), Refusal::none);
}

}  // namespace
}  // namespace headroom::pool
