#include "ros2/diagnostics_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom::ros2 {
namespace {
using testing::HasSubstr;

// Keeps what would be sent, or cannot send.
class Kept : public DiagnosticsPublisher {
 public:
  explicit Kept(std::vector<DiagnosticArray>& sent, bool fails) : sent_(sent), fails_(fails) {}
  Status start(const PublisherOptions&) override { return {}; }
  Status publish(const DiagnosticArray& array) override {
    sent_.push_back(array);
    if (fails_) return internal_error("diagnostics could not be sent", "the network is down");
    return {};
  }

 private:
  std::vector<DiagnosticArray>& sent_;
  bool fails_;
};

// How many of `count` samples, `interval_ms` apart, are published.
std::size_t published(std::int64_t interval_ms, int count, int changed_at = -1, bool fails = false) {
  std::vector<DiagnosticArray> sent;
  const Nanoseconds interval{interval_ms * 1'000'000};
  DiagnosticsFeed feed(std::make_unique<Kept>(sent, fails), "pc", interval);
  analysis::MemoryRisk risk(interval);
  for (int i = 0; i < count; ++i) {
    SystemSample sample;
    // A little too early or too late, as samples are.
    sample.time = {i * interval.count + (i % 2 == 0 ? 300'000 : -300'000)};
    sample.ram_total = gibibytes(1);
    feed.add(sample, risk, {}, i == changed_at);
  }
  return sent.size();
}

TEST(DiagnosticsFeed, OneASecond) {
  EXPECT_EQ(published(1000, 20), 20u);
  EXPECT_EQ(published(100, 200), 20u);
  EXPECT_EQ(published(5000, 20), 20u) << "each, where they come less often";
  EXPECT_EQ(published(700, 100), 70u);
}

TEST(DiagnosticsFeed, WhatBeginsOrEndsIsToldAtOnce) {
  EXPECT_EQ(published(100, 10), 1u);
  EXPECT_EQ(published(100, 10, 5), 2u);
}

TEST(DiagnosticsFeed, AWarningOnce) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(published(1000, 5, -1, true), 5u) << "it goes on trying";
  const std::string said = testing::internal::GetCapturedStderr();
  const std::size_t first = said.find("the network is down");
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("the network is down", first + 1), std::string::npos) << said;
}

TEST(DiagnosticsFeed, TheEndIsStale) {
  std::vector<DiagnosticArray> sent;
  DiagnosticsFeed feed(std::make_unique<Kept>(sent, false), "pc", {1'000'000'000});
  feed.end();
  EXPECT_TRUE(sent.empty()) << "nothing was ever told";
  SystemSample sample;
  sample.ram_total = gibibytes(1);
  analysis::MemoryRisk risk({1'000'000'000});
  feed.add(sample, risk, {}, false);
  feed.end();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[1].status.at(0).level, DiagnosticLevel::stale);
  EXPECT_GT(sent[1].stamp.count, 1'600'000'000'000'000'000);
}

}  // namespace
}  // namespace headroom::ros2
