// Two runs that find each other by a name and agree on what they measure in step.
#include "bench/step_partner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <future>

namespace headroom::bench {
namespace {

using testing::HasSubstr;

constexpr Nanoseconds kLong{20'000'000'000}, kShort{100'000'000};

std::string own_name(const char* of) { return fmt::format("test-{}-{}", of, ::getpid()); }

struct Met {
  std::optional<StepPartner> partner;
  Status agreed;
  std::optional<UniqueFd> turns;
};

// One run, in a thread of its own.
std::future<Met> run(const std::string& name, std::vector<std::string> models, Interrupt& interrupt) {
  return std::async(std::launch::async, [name, models = std::move(models), &interrupt] {
    Met met;
    auto found = StepPartner::meet(name, kLong, interrupt);
    if (!found) {
      met.agreed = forward_error(found);
      return met;
    }
    met.partner.emplace(std::move(*found));
    met.agreed = met.partner->agree(models, interrupt);
    if (met.agreed && met.partner->why_alone().empty()) met.turns = met.partner->begin_model(interrupt);
    return met;
  });
}

class StepPartners : public testing::Test {
 protected:
  Result<Interrupt> interrupt_ = Interrupt::listen(), other_interrupt_ = Interrupt::listen();
};

TEST_F(StepPartners, TwoOfANameGetThePairAndAnId) {
  const std::string name = own_name("pair");
  auto one = run(name, {"det", "seg"}, *interrupt_),
       two = run(name, {"det", "only here", "seg"}, *other_interrupt_);
  const Met a = one.get(), b = two.get();
  ASSERT_TRUE(a.agreed) << a.agreed.error().sentence();
  ASSERT_TRUE(b.agreed) << b.agreed.error().sentence();
  EXPECT_NE(a.partner->is_first(), b.partner->is_first());
  EXPECT_EQ(a.partner->id(), b.partner->id());
  EXPECT_EQ(a.partner->id().size(), 16);
  EXPECT_TRUE(a.partner->is_common("det") && b.partner->is_common("seg"));
  EXPECT_FALSE(b.partner->is_common("only here"));
  ASSERT_TRUE(a.turns && b.turns);
  ASSERT_EQ(::write(a.turns->get(), "x", 1), 1);  // they are the two ends of one pair
  char byte = 0;
  EXPECT_EQ(::read(b.turns->get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
}

TEST_F(StepPartners, OneModelEachIsTheSameOneRenamed) {
  const std::string name = own_name("renamed");
  auto one = run(name, {"old"}, *interrupt_), two = run(name, {"new"}, *other_interrupt_);
  const Met a = one.get(), b = two.get();
  EXPECT_TRUE(a.agreed && b.agreed);
  EXPECT_TRUE(a.partner->is_common("old") && b.partner->is_common("new"));
}

TEST_F(StepPartners, AnotherOrderIsRefused) {
  const std::string name = own_name("order");
  auto one = run(name, {"a", "b"}, *interrupt_), two = run(name, {"b", "a"}, *other_interrupt_);
  EXPECT_THAT(one.get().agreed.error().sentence(), HasSubstr("another order"));
  EXPECT_THAT(two.get().agreed.error().sentence(), HasSubstr("another order"));
}

TEST_F(StepPartners, NothingInCommonIsMeasuredAlone) {
  const std::string name = own_name("nothing");
  auto one = run(name, {"a", "b"}, *interrupt_), two = run(name, {"c"}, *other_interrupt_);
  std::array<Met, 2> both{one.get(), two.get()};
  for (const Met& met : both) {
    EXPECT_TRUE(met.agreed);
    EXPECT_THAT(met.partner->why_alone(), HasSubstr("no model in common"));
  }
}

TEST_F(StepPartners, NobodyElseIsWrongUse) {
  const auto alone = StepPartner::meet(own_name("alone"), kShort, *interrupt_);
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().kind, ErrorKind::usage);
  EXPECT_THAT(alone.error().sentence(), HasSubstr("no other run of that name came"));
}

TEST_F(StepPartners, ARunThatEndsBeforeItAgreesIsTold) {
  const std::string name = own_name("ends");
  auto ends = std::async(std::launch::async,
                         [&] { return StepPartner::meet(name, kLong, *other_interrupt_).has_value(); });
  const Met met = run(name, {"det"}, *interrupt_).get();
  EXPECT_TRUE(ends.get());
  EXPECT_TRUE(met.agreed);
  EXPECT_THAT(met.partner->why_alone(), HasSubstr("ended before anything was measured"));
}

TEST(StepNames, AreLettersDigitsAndALittleElse) {
  EXPECT_TRUE(check_step_name("ci-1.2_x"));
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a/b"), std::string(65, 'a')})
    EXPECT_FALSE(check_step_name(name)) << name;
}

}  // namespace
}  // namespace headroom::bench
