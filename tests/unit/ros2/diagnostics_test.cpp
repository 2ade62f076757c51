#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cstdlib>
#include <stdexcept>

#include "monitoring/alerts.h"
#include "serve/ros2/diagnostics.h"
#include "serve/ros2/publisher.h"

namespace headroom::ros2 {
namespace {
using testing::HasSubstr;

AlertEvent alert_of(const std::string& rule, const std::string& figure, AlertSeverity severity, double value,
                    double threshold) {
  return {rule, figure, severity, true, {}, {}, value, threshold, true, {}};
}

DiagnosticArray array_of(Diagnostics& diagnostics, const SystemSample& sample,
                         const std::vector<AlertEvent>& active = {}) {
  monitoring::MemoryRisk risk({1'000'000'000});
  risk.add(sample);
  return diagnostics.of(sample, risk, active);
}

// A missing status ends the test.
const DiagnosticStatus& find(const DiagnosticArray& array, const std::string& name) {
  for (const DiagnosticStatus& status : array.status)
    if (status.name == "headroom: " + name) return status;
  throw std::runtime_error("no status " + name);
}

std::string value_of(const DiagnosticStatus& status, const std::string& key) {
  for (const KeyValue& pair : status.values)
    if (pair.key == key) return pair.value;
  return "(absent)";
}

SystemSample jetson() {
  SystemSample sample;
  sample.unix_time = Nanoseconds{1'700'000'000'123'456'789};
  sample.ram_total = gibibytes(16);
  sample.ram_used = gibibytes(8);
  sample.ram_available = gibibytes(7);
  sample.swap_total = gibibytes(8);
  sample.swap_used = mebibytes(10);
  sample.nvmap_used = gibibytes(3);
  sample.gpu_percent = 92;
  sample.temperatures_celsius = {{"cpu", 68.5}, {"gpu", 72}};
  sample.power_watts = {{"VDD_CPU", 6.75}, {"VDD_IN", 18.5}};
  sample.power_mode = "MAXN";
  return sample;
}

TEST(Diagnostics, ReportsAStatusForEachComponent) {
  Diagnostics diagnostics("robot-7");
  const DiagnosticArray array = array_of(diagnostics, jetson());
  EXPECT_EQ(array.stamp.count, 1'700'000'000'123'456'789);
  ASSERT_EQ(array.status.size(), 5u);
  for (const DiagnosticStatus& status : array.status) {
    EXPECT_EQ(status.level, DiagnosticLevel::ok) << status.name;
    EXPECT_EQ(status.hardware_id, "robot-7");
  }
  const DiagnosticStatus& memory = find(array, "memory");
  EXPECT_EQ(memory.message, "8.00 GiB of 16.00 GiB is used");
  EXPECT_EQ(value_of(memory, "ram_used_bytes"), "8589934592");
  EXPECT_EQ(value_of(memory, "ram_used_percent"), "50");
  EXPECT_EQ(value_of(memory, "cma_free_bytes"), "(absent)");
  EXPECT_EQ(find(array, "swap").message, "10.0 MiB of 8.00 GiB is used");
  const DiagnosticStatus& gpu = find(array, "gpu");
  EXPECT_EQ(gpu.message, "the GPU uses 3.00 GiB of the machine's memory");
  EXPECT_EQ(value_of(gpu, "gpu_percent"), "92");
  const DiagnosticStatus& temperature = find(array, "temperature");
  EXPECT_EQ(temperature.message, "gpu is at 72.0 °C");
  EXPECT_EQ(value_of(temperature, "temperature_celsius.cpu"), "68.50");
  const DiagnosticStatus& power = find(array, "power");
  EXPECT_EQ(power.message, "VDD_IN draws 18.5 W");
  EXPECT_EQ(value_of(power, "power_mode"), "MAXN");
}

TEST(Diagnostics, OmitsUnknownComponents) {
  Diagnostics diagnostics("pc");
  EXPECT_TRUE(array_of(diagnostics, {}).status.empty());
  SystemSample sample;
  sample.ram_total = gibibytes(4);
  sample.swap_total = Bytes{};  // a machine without swap
  const DiagnosticArray array = array_of(diagnostics, sample);
  ASSERT_EQ(array.status.size(), 1u);
  EXPECT_EQ(array.status[0].name, "headroom: memory");
}

TEST(Diagnostics, LevelIsThatOfTheMostSevereAlert) {
  Diagnostics diagnostics("pc");
  const std::vector<AlertEvent> active = {
      alert_of("little_available", "ram_available_bytes", AlertSeverity::warning, 1e9, 2e9),
      alert_of("total_memory", "ram_used_percent", AlertSeverity::critical, 91.2, 85),
      alert_of("swap_in_use", "swap_used_bytes", AlertSeverity::warning, 1 << 27, 64 << 20),
      alert_of("throttled", "throttled", AlertSeverity::info, 1, 0.5)};
  const DiagnosticArray array = array_of(diagnostics, jetson(), active);
  const DiagnosticStatus& memory = find(array, "memory");
  EXPECT_EQ(memory.level, DiagnosticLevel::error);
  EXPECT_THAT(
      memory.message,
      testing::StartsWith("total_memory: 91.2 % of memory is used (limit 85.0 %); little_available: "));
  EXPECT_EQ(value_of(memory, "alerts"), "total_memory, little_available");
  EXPECT_EQ(find(array, "swap").level, DiagnosticLevel::warn);
  EXPECT_EQ(find(array, "gpu").level, DiagnosticLevel::ok);
  const DiagnosticStatus& power = find(array, "power");
  EXPECT_EQ(power.level, DiagnosticLevel::ok) << "an info alert must not stop a robot";
  EXPECT_THAT(power.message, HasSubstr("heat or power limits reduce the clocks"));
}

// Each figure that rules can watch appears in a status.
TEST(Diagnostics, ReportsEveryAlert) {
  for (std::size_t i = 0; i < monitoring::kRiskFigures; ++i) {
    const std::string figure(monitoring::name_of(static_cast<monitoring::RiskFigure>(i)));
    Diagnostics diagnostics("pc");
    const DiagnosticArray array =
        array_of(diagnostics, {}, {alert_of("mine", figure, AlertSeverity::critical, 2, 1)});
    ASSERT_EQ(array.status.size(), 1u) << figure;
    EXPECT_EQ(array.status[0].level, DiagnosticLevel::error) << figure;
    EXPECT_EQ(value_of(array.status[0], "alerts"), "mine");
  }
}

TEST(Diagnostics, FormerFiguresBecomeStale) {
  Diagnostics diagnostics("pc");
  SystemSample sample = jetson();
  array_of(diagnostics, sample);
  sample.temperatures_celsius.clear();
  const DiagnosticArray array = array_of(diagnostics, sample);
  const DiagnosticStatus& temperature = find(array, "temperature");
  EXPECT_EQ(temperature.level, DiagnosticLevel::stale);
  const DiagnosticArray ended = diagnostics.ended({5});
  EXPECT_EQ(ended.stamp.count, 5);
  ASSERT_EQ(ended.status.size(), 5u);
  for (const DiagnosticStatus& status : ended.status) EXPECT_EQ(status.level, DiagnosticLevel::stale);
}

TEST(Diagnostics, ReportsDiscreteGpus) {
  Diagnostics diagnostics("pc");
  SystemSample sample;
  sample.gpus.resize(2);
  sample.gpus[0].index = 0;
  sample.gpus[0].name = "NVIDIA H200";
  sample.gpus[0].memory_total = gibibytes(140);
  sample.gpus[0].memory_used = gibibytes(70);
  sample.gpus[1].index = 1;
  sample.gpus[1].memory_total = gibibytes(140);
  sample.gpus[1].memory_used = gibibytes(14);
  DiagnosticArray array = array_of(diagnostics, sample);
  EXPECT_EQ(find(array, "gpu").message, "70.00 GiB of 140.00 GiB is used, 14.00 GiB of 140.00 GiB is used");
  EXPECT_EQ(value_of(find(array, "gpu"), "gpu.0.name"), "NVIDIA H200");
  EXPECT_EQ(value_of(find(array, "gpu"), "gpu_memory_used_percent"), "50");
  sample.gpus[1] = {};
  sample.gpus[1].index = 1;
  sample.gpus[1].lost = true;
  array = array_of(diagnostics, sample);
  EXPECT_EQ(find(array, "gpu").level, DiagnosticLevel::error);
  EXPECT_THAT(find(array, "gpu").message, HasSubstr("GPU 1 is lost"));
}

// ROS nodes in Python fail on texts that are not UTF-8, and a NUL ends a DDS string.
TEST(Diagnostics, TextsAreUtf8WithoutNul) {
  Diagnostics diagnostics("pc\xff");
  SystemSample sample;
  sample.temperatures_celsius = {{std::string("a\0b\xfe", 4), 90}};
  const DiagnosticArray array = array_of(diagnostics, sample);
  ASSERT_EQ(array.status.size(), 1u);
  EXPECT_EQ(array.status[0].hardware_id, "pc\xef\xbf\xbd");
  EXPECT_EQ(value_of(array.status[0], "temperature_celsius.a b\xef\xbf\xbd"), "90");
  EXPECT_EQ(array.status[0].message, "a b\xef\xbf\xbd is at 90.0 °C");
}

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

TEST(DiagnosticsFeed, PublishesOncePerSecondAndAlertChangesAtOnce) {
  EXPECT_EQ(published(1000, 20), 20u);
  EXPECT_EQ(published(100, 200), 20u);
  EXPECT_EQ(published(5000, 20), 20u) << "every sample if the interval is longer";
  EXPECT_EQ(published(700, 100), 70u);
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

class Environment : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name :
         {"ROS_DOMAIN_ID", "ROS_LOCALHOST_ONLY", "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_STATIC_PEERS"})
      ::unsetenv(name);
  }
  static void set(const char* name, const char* value) { ::setenv(name, value, 1); }
  static PublisherOptions options() { return publisher_options_from_environment().value(); }
};

TEST_F(Environment, DefaultsToDomainZeroOnTheSubnet) {
  EXPECT_EQ(options().topic, "/diagnostics");
  EXPECT_EQ(options().domain, 0);
  EXPECT_FALSE(options().localhost_only);
  EXPECT_TRUE(options().static_peers.empty());
}

TEST_F(Environment, ReadsVariablesLikeRos2) {
  set("ROS_DOMAIN_ID", "42");
  set("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST");
  set("ROS_STATIC_PEERS", "192.168.1.7;robot-8.local;");
  EXPECT_EQ(options().domain, 42);
  EXPECT_TRUE(options().localhost_only);
  EXPECT_EQ(options().static_peers, (std::vector<std::string>{"192.168.1.7", "robot-8.local"}));
  set("ROS_LOCALHOST_ONLY", "0");  // the older variable takes precedence
  EXPECT_FALSE(options().localhost_only);
  set("ROS_LOCALHOST_ONLY", "1");
  set("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET");
  EXPECT_TRUE(options().localhost_only);
}

TEST(TopicName, FollowsRos2Rules) {
  for (const char* name : {"/diagnostics", "/robot_7/diagnostics", "/_hidden/a1"})
    EXPECT_TRUE(is_topic_name(name)) << name;
  for (const char* name : {"", "/", "diagnostics", "/a//b", "/a/", "/7up", "/a b", "/a__b", "/~/a", "/ä"})
    EXPECT_FALSE(is_topic_name(name)) << name;
  EXPECT_FALSE(is_topic_name("/" + std::string(250, 'a')));
}

}  // namespace
}  // namespace headroom::ros2
