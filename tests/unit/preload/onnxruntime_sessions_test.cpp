// Open sessions never share a name.
#include "preload/onnxruntime_hooks.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace headroom::preload {
namespace {

// Releases its slot at the end of a test.
class Session {
 public:
  explicit Session(const std::string& name) : slot_(reserve_session(name.c_str())) {
    if (slot_ != nullptr) open_session(slot_, this, 0, 1, false);
  }
  ~Session() {
    if (slot_ != nullptr) remove_session(slot_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  bool is_open() const { return slot_ != nullptr; }
  std::string name() const { return slot_->name; }

 private:
  OpenSession* slot_;
};

TEST(OnnxRuntimeSessions, NumbersSessionsOfTheSameFileName) {
  OpenSession* loading = reserve_session("inference");
  const Session second("inference"), third("inference"), other("detector");
  EXPECT_EQ(second.name(), "inference 2");
  EXPECT_EQ(third.name(), "inference 3");
  EXPECT_EQ(other.name(), "detector");
  EXPECT_STREQ(find_session(&second)->name, "inference 2");
  remove_session(loading);
  EXPECT_EQ(Session("inference").name(), "inference") << "the first is closed";
}

TEST(OnnxRuntimeSessions, DistinguishesLongNames) {
  const std::string name(500, 'x');
  const Session first(name), second(name);
  EXPECT_LT(first.name().size(), sizeof OpenSession::name);
  EXPECT_NE(first.name(), second.name());
  EXPECT_TRUE(second.name().ends_with(" 2"));
}

TEST(OnnxRuntimeSessions, NamesDifferWhenThreadsLoadAtTheSameTime) {
  constexpr std::size_t kThreads = 8, kEach = 16;
  std::vector<std::vector<std::unique_ptr<Session>>> sessions(kThreads);
  std::vector<std::thread> threads;
  for (auto& mine : sessions)
    threads.emplace_back([&mine] {
      for (std::size_t i = 0; i < kEach; ++i) mine.push_back(std::make_unique<Session>("model"));
    });
  for (auto& thread : threads) thread.join();
  std::set<std::string> names;
  for (const auto& mine : sessions)
    for (const auto& session : mine) names.insert(session->name());
  EXPECT_EQ(names.size(), kThreads * kEach);
}

TEST(OnnxRuntimeSessions, ReturnsNoneAfterTheLastSlot) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (std::size_t i = 0; i < kMostSessions; ++i) sessions.push_back(std::make_unique<Session>("model"));
  EXPECT_TRUE(sessions.back()->is_open());
  EXPECT_FALSE(Session("model").is_open());
}

}  // namespace
}  // namespace headroom::preload
