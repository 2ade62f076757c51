#include "serve/ros2/diagnostics_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom::ros2 {
namespace {
using testing::HasSubstr;

// Stores the messages instead of sending them; may fail.
class StoringPublisher : public DiagnosticsPublisher {
 public:
  explicit StoringPublisher(std::vector<DiagnosticArray>& sent, bool fails) : sent_(sent), fails_(fails) {}
  Status start(const PublisherOptions&) override { return {}; }
  Status publish(const DiagnosticArray& array) override {
    sent_.push_back(array);
    if (fails_) return internal_error("cannot send diagnostics", "the network is down");
    return {};
  }

 private:
  std::vector<DiagnosticArray>& sent_;
  bool fails_;
};

// The number of published samples, of `count` samples with an interval of `interval_ms`.
std::size_t published(std::int64_t interval_ms, int count, int changed_at = -1, bool fails = false) {
  std::vector<DiagnosticArray> sent;
  const Nanoseconds interval{interval_ms * 1'000'000};
  DiagnosticsFeed feed(std::make_unique<StoringPublisher>(sent, fails), "pc", interval);
  monitoring::MemoryRisk risk(interval);
  for (int i = 0; i < count; ++i) {
    SystemSample sample;
    // Slightly early or late, like real samples.
    sample.time = {i * interval.count + (i % 2 == 0 ? 300'000 : -300'000)};
    sample.ram_total = gibibytes(1);
    feed.add(sample, risk, {}, i == changed_at);
  }
  return sent.size();
}

TEST(DiagnosticsFeed, PublishesOncePerSecond) {
  EXPECT_EQ(published(1000, 20), 20u);
  EXPECT_EQ(published(100, 200), 20u);
  EXPECT_EQ(published(5000, 20), 20u) << "every sample if the interval is longer";
  EXPECT_EQ(published(700, 100), 70u);
}

TEST(DiagnosticsFeed, PublishesAlertChangesAtOnce) {
  EXPECT_EQ(published(100, 10), 1u);
  EXPECT_EQ(published(100, 10, 5), 2u);
}

TEST(DiagnosticsFeed, WarnsOnce) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(published(1000, 5, -1, true), 5u) << "it keeps trying";
  const std::string output = testing::internal::GetCapturedStderr();
  const std::size_t first = output.find("the network is down");
  ASSERT_NE(first, std::string::npos) << output;
  EXPECT_EQ(output.find("the network is down", first + 1), std::string::npos) << output;
}

TEST(DiagnosticsFeed, PublishesStaleStatusesAtTheEnd) {
  std::vector<DiagnosticArray> sent;
  DiagnosticsFeed feed(std::make_unique<StoringPublisher>(sent, false), "pc", {1'000'000'000});
  feed.end();
  EXPECT_TRUE(sent.empty()) << "nothing was published";
  SystemSample sample;
  sample.ram_total = gibibytes(1);
  monitoring::MemoryRisk risk({1'000'000'000});
  feed.add(sample, risk, {}, false);
  feed.end();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[1].status.at(0).level, DiagnosticLevel::stale);
  EXPECT_GT(sent[1].stamp.count, 1'600'000'000'000'000'000);
}

}  // namespace
}  // namespace headroom::ros2
