// Two workers that measure frames in turns: never both at the same time, and never waiting for a worker that
// has ended.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "bench/conductor/step_partner.h"
#include "bench/worker/frames.h"

namespace headroom::bench {
namespace {

constexpr Nanoseconds kTimeout{60'000'000'000}, kShort{500'000'000};

struct Ends {
  UniqueFd first, second;
};

Ends connected() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Runs two workers, each in a thread; returns the order of their frames, and how often both ran at the same
// time.
struct Workers {
  std::string order;
  std::atomic<int> at_work{0}, together{0}, waits{0};

  std::int64_t work(UniqueFd fd, bool first, int frames, bool one_thread = false) {
    FrameTurns turns(std::move(fd), first, kTimeout, [this] { ++waits; });
    turns.begin(one_thread);
    for (int i = 0; i < frames; ++i) {
      turns.next();
      if (at_work.fetch_add(1) != 0) ++together;
      if (i < turns.frames()) order += first ? 'A' : 'B';  // only the worker with the turn writes
      --at_work;
    }
    turns.end();
    return turns.frames();
  }
};

TEST(FrameTurns, AlternatesFramesAndContinuesAloneWithMore) {
  struct Case {
    int first, second;  // frames of each worker
    const char* order;  // of the common frames
  };
  for (const Case& row : {Case{4, 4, "ABABABAB"}, {100, 3, "ABABAB"}, {3, 100, "ABABAB"}}) {
    Workers workers;
    auto [first, second] = connected();
    std::int64_t had_first = 0, had_second = 0;
    {
      std::jthread a(
          [&, fd = std::move(first)]() mutable { had_first = workers.work(std::move(fd), true, row.first); });
      std::jthread b([&, fd = std::move(second)]() mutable {
        had_second = workers.work(std::move(fd), false, row.second);
      });
    }
    const int common = std::min(row.first, row.second);
    EXPECT_EQ(workers.order.substr(0, 2 * static_cast<std::size_t>(common)), row.order);
    EXPECT_EQ(std::min(had_first, had_second), common);
    // The turn after the last common frame may still arrive.
    EXPECT_LE(std::max(had_first, had_second), common + 1);
    EXPECT_EQ(row.first == row.second ? workers.together.load() : 0, 0);
  }
}

TEST(FrameTurns, DoesNotWaitForADeadPartner) {
  auto [first, second] = connected();
  std::jthread dies([fd = std::move(second)]() mutable {
    FrameTurns turns(std::move(fd), false, kTimeout, [] {});
    turns.begin(false);
    turns.next();
  });
  FrameTurns turns(std::move(first), true, kTimeout, [] {});
  turns.begin(false);
  for (int i = 0; i < 10; ++i) turns.next();
  turns.end();
  EXPECT_GE(turns.frames(), 1);
  EXPECT_LE(turns.frames(), 2);
}

TEST(FrameTurns, ContinuesWhenThePartnerNeverBegins) {
  auto [first, second] = connected();
  second.reset();
  FrameTurns turns(std::move(first), false, kTimeout, [] {});
  turns.begin(true);
  turns.next();
  EXPECT_EQ(turns.frames(), 0);
  EXPECT_FALSE(turns.on_one_processor());
}

// The partner exists but never takes its turn, like a stopped process.
TEST(FrameTurns, AbandonsAStoppedPartnerAfterTheTimeout) {
  auto [first, second] = connected();
  std::promise<void> given_up;
  std::jthread stopped([fd = std::move(second), until = given_up.get_future()]() mutable {
    FrameTurns turns(std::move(fd), false, kTimeout, [] {});
    turns.begin(false);
    turns.next();
    until.wait();
  });
  FrameTurns turns(std::move(first), true, kShort, [] {});
  turns.begin(false);
  for (int i = 0; i < 10; ++i) turns.next();
  given_up.set_value();
  EXPECT_EQ(turns.frames(), 1);
}

TEST(FrameTurns, SendsSignsOfLifeWhileItWaits) {
  Workers workers;
  auto [first, second] = connected();
  std::jthread late([&, fd = std::move(first)]() mutable {
    while (workers.waits == 0) std::this_thread::yield();
    workers.work(std::move(fd), true, 1);
  });
  EXPECT_EQ(workers.work(std::move(second), false, 1), 1);
}

// Both workers move if both compute in one thread, else neither.
TEST(FrameTurns, MovesBothWorkersToOneProcessorOrNeither) {
  for (const bool other_has_one_thread : {true, false}) {
    auto [first, second] = connected();
    cpu_set_t of_first, of_second, own;
    ::sched_getaffinity(0, sizeof own, &own);
    bool shared_first = false, shared_second = false;
    const auto work = [&own](UniqueFd fd, bool is_first, bool one_thread, cpu_set_t& set, bool& shared) {
      FrameTurns turns(std::move(fd), is_first, kTimeout, [] {});
      turns.begin(one_thread);
      ::sched_getaffinity(0, sizeof set, &set);
      shared = turns.on_one_processor();
      turns.next();
      turns.end();
      cpu_set_t after;  // a worker that continues alone gets its old affinity back
      ::sched_getaffinity(0, sizeof after, &after);
      EXPECT_TRUE(CPU_EQUAL(&after, &own));
    };
    {
      std::jthread a(
          [&, fd = std::move(first)]() mutable { work(std::move(fd), true, true, of_first, shared_first); });
      std::jthread b([&, fd = std::move(second)]() mutable {
        work(std::move(fd), false, other_has_one_thread, of_second, shared_second);
      });
    }
    EXPECT_EQ(shared_first, other_has_one_thread);
    EXPECT_EQ(shared_second, other_has_one_thread);
    EXPECT_TRUE(CPU_EQUAL(&of_first, &of_second));
    EXPECT_EQ(CPU_COUNT(&of_first), other_has_one_thread ? 1 : CPU_COUNT(&own));
  }
}

}  // namespace

// Two runs that find each other by name and agree on the models to measure in step.

namespace {

using testing::HasSubstr;

constexpr Nanoseconds kLong{20'000'000'000}, kShortWait{100'000'000};

std::string own_name(const char* of) { return fmt::format("test-{}-{}", of, ::getpid()); }

struct Met {
  std::optional<StepPartner> partner;
  Status agreed;
  std::optional<UniqueFd> turns;
};

// One run in a separate thread.
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
    if (met.agreed && met.partner->why_alone().empty())
      met.turns = met.partner->begin_model(models.front(), interrupt);
    return met;
  });
}

class StepPartners : public testing::Test {
 protected:
  Result<Interrupt> interrupt_ = Interrupt::listen(), other_interrupt_ = Interrupt::listen();
};

TEST_F(StepPartners, PairsTwoRunsWithOneName) {
  const std::string name = own_name("pair");
  auto one = run(name, {"det", "seg"}, *interrupt_),
       two = run(name, {"det", "only here", "seg"}, *other_interrupt_);
  const Met a = one.get(), b = two.get();
  ASSERT_TRUE(a.agreed) << a.agreed.error().sentence();
  ASSERT_TRUE(b.agreed) << b.agreed.error().sentence();
  EXPECT_NE(a.partner->is_first(), b.partner->is_first());
  EXPECT_EQ(a.partner->id_of("seg"), b.partner->id_of("seg"));
  EXPECT_NE(a.partner->id_of("seg"), a.partner->id_of("det"));
  EXPECT_TRUE(a.partner->is_common("det") && b.partner->is_common("seg"));
  EXPECT_FALSE(b.partner->is_common("only here"));
  ASSERT_TRUE(a.turns && b.turns);
  ASSERT_EQ(::write(a.turns->get(), "x", 1), 1);  // the two sockets are connected
  char byte = 0;
  EXPECT_EQ(::read(b.turns->get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
}

// If one side cannot start a model, the other side skips it, and the next models are paired correctly.
TEST_F(StepPartners, SkipsAModelThatOneSideCannotStart) {
  for (const bool first_leaves_out : {true, false}) {
    const std::string name = own_name("passed-over");
    const std::vector<std::string> models{"a", "b", "c"};
    auto one = run(name, models, *interrupt_), two = run(name, models, *other_interrupt_);
    Met both[2] = {one.get(), two.get()};
    Met& first = both[0].partner->is_first() ? both[0] : both[1];
    Met& second = both[0].partner->is_first() ? both[1] : both[0];
    Met& leaves_out = first_leaves_out ? first : second;
    std::optional<UniqueFd> of_first[2], of_second[2];
    for (int i = 0; i < 2; ++i)
      if (i == 1 || &leaves_out != &first)
        of_first[i] = first.partner->begin_model(models[i + 1], *interrupt_);
    for (int i = 0; i < 2; ++i)
      if (i == 1 || &leaves_out != &second)
        of_second[i] = second.partner->begin_model(models[i + 1], *interrupt_);
    EXPECT_FALSE(first_leaves_out && of_second[0]);  // measured alone
    ASSERT_TRUE(of_first[1] && of_second[1]);
    ASSERT_EQ(::write(of_first[1]->get(), "c", 1), 1);
    char byte = 0;
    EXPECT_EQ(::read(of_second[1]->get(), &byte, 1), 1);
    EXPECT_EQ(byte, 'c');
  }
}

// A third run with the same name is not paired with either; it waits for another partner.
TEST_F(StepPartners, LetsAThirdRunWaitForAnotherPartner) {
  const std::string name = own_name("third");
  using Meeting = std::future<Result<StepPartner>>;
  const auto meets = [&] {
    return std::async(std::launch::async, [&] { return StepPartner::meet(name, kLong, *interrupt_); });
  };
  std::vector<Meeting> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(meets());
  std::vector<Result<StepPartner>> met;  // keeps the connections open
  const auto take_those_who_met = [&] {
    std::erase_if(waiting, [&](Meeting& meeting) {
      if (meeting.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) return false;
      met.push_back(meeting.get());
      return true;
    });
  };
  while (met.size() < 2) take_those_who_met();
  waiting.push_back(meets());
  while (!waiting.empty()) take_those_who_met();
  EXPECT_TRUE(std::all_of(met.begin(), met.end(), [](const auto& one) { return one.has_value(); }));
  EXPECT_EQ(std::count_if(met.begin(), met.end(), [](const auto& one) { return one && one->is_first(); }), 2);
}

TEST_F(StepPartners, AgreesOnCommonModelsInOneOrder) {
  struct Case {
    std::vector<std::string> of_one, of_two;
    const char *error, *why_alone;
  };
  int number = 0;
  for (const Case& row : {Case{{"old"}, {"new"}, "", ""},  // single models are paired, whatever their names
                          {{"a", "b"}, {"b", "a"}, "in different order", ""},
                          {{"a", "b"}, {"c"}, "", "no working model in common"}}) {
    const std::string name = own_name("order") + std::to_string(++number);
    auto one = run(name, row.of_one, *interrupt_), two = run(name, row.of_two, *other_interrupt_);
    const std::array<Met, 2> both{one.get(), two.get()};
    for (const Met& met : both) {
      EXPECT_THAT(met.agreed ? "" : met.agreed.error().sentence(), HasSubstr(row.error));
      EXPECT_EQ(met.agreed.has_value(), row.error == std::string());
      EXPECT_THAT(met.partner->why_alone(), HasSubstr(row.why_alone));
    }
    EXPECT_EQ(both[0].partner->is_common("old"), row.of_one.size() == 1);
    EXPECT_EQ(both[1].partner->is_common("new"), row.of_one.size() == 1);
  }
}

TEST_F(StepPartners, RejectsARunWithoutAPartner) {
  const auto alone = StepPartner::meet(own_name("alone"), kShortWait, *interrupt_);
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().kind, ErrorKind::usage);
  EXPECT_THAT(alone.error().sentence(), HasSubstr("no other run with that name started"));
}

TEST_F(StepPartners, ReportsAPartnerThatEndedEarly) {
  const std::string name = own_name("ends");
  auto ends = std::async(std::launch::async,
                         [&] { return StepPartner::meet(name, kLong, *other_interrupt_).has_value(); });
  const Met met = run(name, {"det"}, *interrupt_).get();
  EXPECT_TRUE(ends.get());
  EXPECT_TRUE(met.agreed);
  EXPECT_THAT(met.partner->why_alone(), HasSubstr("ended before anything was measured"));
}

TEST(StepNames, AcceptLettersDigitsAndSomePunctuation) {
  EXPECT_TRUE(check_step_name("ci-1.2_x"));
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a/b"), std::string(65, 'a')})
    EXPECT_FALSE(check_step_name(name)) << name;
}

}  // namespace

}  // namespace headroom::bench
