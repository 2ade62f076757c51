// headroom serve --ros2 with subscribers in other processes, on the loopback interface: with Cyclone DDS and
// Fast DDS like ROS 2 nodes, and as a real node if the build found ROS 2.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include "base/subprocess.h"
#include "command.h"

namespace headroom::test {
namespace {
using testing::HasSubstr;

// Each test process uses its own domain, and its own topic in case two share a domain.
std::string domain() { return std::to_string(1 + ::getpid() % 100); }
std::string topic() { return fmt::format("/robot_{}/diagnostics", ::getpid()); }

using Environment = std::vector<std::pair<std::string, std::string>>;
// Tests send nothing to other machines.
const Environment kLoopback = {{"ROS_LOCALHOST_ONLY", "1"}};

// A child whose standard output is read a line at a time.
class Talking {
 public:
  Talking(std::vector<std::string> command, Environment environment) {
    auto pipe = Pipe::create();
    SpawnOptions options;
    options.command = std::move(command);
    options.environment = std::move(environment);
    options.stdout_fd = pipe->write_end.get();
    auto process = Subprocess::spawn(options);
    pipe->write_end.reset();
    if (!process) return;
    process_ = std::move(*process);
    output_ = std::move(pipe->read_end);
  }
  // Empty at the end of the output, or after 30 s without a line.
  std::string line() {
    std::string text;
    for (char c = 0;;) {
      pollfd polled{output_.get(), POLLIN, 0};
      if (::poll(&polled, 1, 30'000) != 1 || ::read(output_.get(), &c, 1) != 1) return "";
      if (c == '\n') return text;
      text += c;
    }
  }
  Json json() {
    auto parsed = parse_json(line());
    return parsed ? std::move(*parsed) : Json();
  }
  Subprocess& process() { return process_; }

 private:
  Subprocess process_;
  UniqueFd output_;
};

// A fake machine. The test sets its memory use.
class Machine {
 public:
  Machine() {
    std::filesystem::create_directories(folder_ / "proc");
    write_text(
        folder_ / "alerts.toml",
        "defaults = false\n[[rule]]\nname = \"total_memory\"\nfigure = \"ram_used_percent\"\nabove = 85\n"
        "clear = 80\nfor = \"0s\"\nclear_for = \"0s\"\nseverity = \"critical\"\n");
    write_text(folder_ / "proc/meminfo", "");
    use(2);
  }
  // Overwrites the file in place with the same length, because headroom keeps it open between samples.
  void use(int gib) {
    const int free = (16 - gib) * 1024 * 1024;
    std::ofstream(folder_ / "proc/meminfo", std::ios::in | std::ios::out) << fmt::format(
        "MemTotal: {0:12} kB\nMemFree: {1:12} kB\nMemAvailable: {1:12} kB\nBuffers: 0 kB\nCached: 0 kB\n"
        "SwapTotal: 0 kB\nSwapFree: 0 kB\n",
        16 * 1024 * 1024, free);
  }
  Talking serve(std::vector<std::string> arguments = {}) {
    std::vector<std::string> command = {test::built_path("bin/headroom"),
                                        "serve",
                                        "--listen",
                                        "127.0.0.1:0",
                                        "--interval",
                                        "200ms",
                                        "--ros2",
                                        "--sysroot",
                                        folder_.path().string(),
                                        "--alerts",
                                        (folder_ / "alerts.toml").string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return {std::move(command), {{"ROS_LOCALHOST_ONLY", "1"}, {"ROS_DOMAIN_ID", domain()}}};
  }

 private:
  TemporaryFolder folder_;
};

std::string subscriber_path(const std::string& name) {
  return test::built_path("tests/ros2_subscriber_") + name;
}

bool has(const std::string& path) { return std::filesystem::exists(path); }

bool has_plugin(const std::string& name) {
  return has(test::built_path("bin/libheadroom_ros2_") + name + ".so");
}

// Empty if the message has no memory status.
Json memory_of(const Json& message) {
  if (message.is_object())
    for (const Json& status : message.value("status", Json::array()))
      if (get_text(status, "name") == "headroom: memory") return status;
  return Json::object();
}

// The first message whose memory status has this level, among at most a hundred.
Json first_with_level(Talking& subscriber, int level) {
  for (int i = 0; i < 100; ++i) {
    Json message = subscriber.json();
    if (message.is_null()) return message;
    if (memory_of(message).value("level", -1) == level) return message;
  }
  return Json();
}

void expect_the_machine(const Json& message) {
  ASSERT_TRUE(message.is_object());
  EXPECT_EQ(get_text(message, "frame_id"), "");
  const std::int64_t now = std::time(nullptr);
  EXPECT_NEAR(static_cast<double>(message.value("sec", std::int64_t{0})), static_cast<double>(now), 120);
  const Json memory = memory_of(message);
  ASSERT_FALSE(memory.empty()) << message.dump();
  EXPECT_NE(get_text(memory, "hardware_id"), "");
  EXPECT_EQ(get_text(memory["values"], "ram_total_bytes"), "17179869184");
}

// Memory use starts low, exceeds the limit and falls again; then the server ends.
void follow_the_course(Machine& machine, Talking& server, Talking& subscriber) {
  const Json well = first_with_level(subscriber, 0);
  expect_the_machine(well);
  EXPECT_EQ(get_text(memory_of(well), "message"), "2.00 GiB of 16.00 GiB is used");
  machine.use(15);
  const Json full = first_with_level(subscriber, 2);
  expect_the_machine(full);
  EXPECT_THAT(get_text(memory_of(full), "message"),
              HasSubstr("total_memory: 93.8 % of memory is used (limit 85.0 %)"));
  EXPECT_EQ(get_text(memory_of(full)["values"], "alerts"), "total_memory");
  machine.use(3);
  EXPECT_FALSE(first_with_level(subscriber, 0).is_null());
  server.process().signal(SIGTERM);
  EXPECT_EQ(server.process().wait().exit_code, 0);
  const Json ended = first_with_level(subscriber, 3);
  EXPECT_EQ(get_text(memory_of(ended), "message"), "headroom has ended");
}

// A publisher and a subscriber.
struct Pair {
  const char *publisher, *subscriber;
};

class Ros2Pair : public testing::TestWithParam<Pair> {};

TEST_P(Ros2Pair, PublishesChangedLevels) {
  const auto [publisher, subscriber_name] = GetParam();
  const std::string path = subscriber_path(subscriber_name);
  if (!has_plugin(publisher)) GTEST_SKIP() << absent_message(publisher);
  if (!has(path)) GTEST_SKIP() << absent_message(subscriber_name);
  Machine machine;
  Talking subscriber({path, domain(), "rt" + topic()}, kLoopback);
  Talking server = machine.serve({"--ros-publisher", publisher, "--ros-topic", topic()});
  ASSERT_THAT(server.line(), HasSubstr("http://127.0.0.1:"));
  follow_the_course(machine, server, subscriber);
}

INSTANTIATE_TEST_SUITE_P(Ros2, Ros2Pair,
                         testing::Values(Pair{"cyclonedds", "cyclonedds"}, Pair{"cyclonedds", "fastdds"},
                                         Pair{"cyclonedds", "rclcpp"}, Pair{"rclcpp", "cyclonedds"},
                                         Pair{"rclcpp", "fastdds"}, Pair{"rclcpp", "rclcpp"}),
                         [](const auto& each) {
                           return fmt::format("{}_to_{}", each.param.publisher, each.param.subscriber);
                         });

// The properties by which a ROS 2 node matches the publisher.
TEST(Ros2, UsesTheNamesAndQosOfARos2Publisher) {
  const std::string path = subscriber_path("cyclonedds");
  if (!has_plugin("cyclonedds") || !has(path)) GTEST_SKIP() << absent_message("Cyclone DDS");
  Machine machine;
  Talking subscriber({path, domain(), "rt/diagnostics"}, kLoopback);
  Talking server = machine.serve({"--ros-publisher", "cyclonedds"});
  const Json publisher = subscriber.json();
  ASSERT_TRUE(publisher.is_object());
  EXPECT_EQ(get_text(publisher, "topic"), "rt/diagnostics");
  EXPECT_EQ(get_text(publisher, "type"), "diagnostic_msgs::msg::dds_::DiagnosticArray_");
  EXPECT_THAT(get_text(publisher, "user_data"), testing::MatchesRegex("typehash=RIHS01_[0-9a-f]+;"));
  EXPECT_TRUE(publisher.value("reliable", false));
  EXPECT_TRUE(publisher.value("volatile", false));
}

// Of two subscribers, one is stopped. The other one and the sampling continue.
TEST(Ros2, AHangingReaderBlocksNothing) {
  const std::string path = subscriber_path("cyclonedds");
  if (!has_plugin("cyclonedds") || !has(path)) GTEST_SKIP() << absent_message("Cyclone DDS");
  Machine machine;
  Talking hanging({path, domain(), "rt" + topic()}, kLoopback);
  Talking other({path, domain(), "rt" + topic()}, kLoopback);
  Talking server =
      machine.serve({"--ros-publisher", "cyclonedds", "--ros-topic", topic(), "--ros-domain", domain()});
  ASSERT_FALSE(first_with_level(hanging, 0).is_null());
  ASSERT_FALSE(first_with_level(other, 0).is_null());
  hanging.process().signal(SIGSTOP);
  for (int i = 0; i < 3; ++i) {
    machine.use(15);
    EXPECT_FALSE(first_with_level(other, 2).is_null());
    machine.use(3);
    EXPECT_FALSE(first_with_level(other, 0).is_null());
  }
  hanging.process().signal(SIGCONT);
  server.process().signal(SIGTERM);
  EXPECT_EQ(server.process().wait().exit_code, 0);
  EXPECT_FALSE(first_with_level(hanging, 3).is_null()) << "it gets the newest message when it continues";
}

TEST(Ros2, WrongUseIsOneSentence) {
  const struct {
    std::vector<std::string> arguments;
    std::vector<std::pair<std::string, std::string>> environment;
    const char* message;
  } cases[] = {
      {{"--ros-domain", "3"}, {}, "--ros-domain needs --ros2"},
      {{"--ros2", "--ros-publisher", "zenoh"}, {}, "is not one of auto, rclcpp, cyclonedds"},
      {{"--ros2", "--ros-domain", "233"}, {}, "ros-domain"},
      {{"--ros2", "--ros-topic", "diagnostics"}, {}, "invalid --ros-topic diagnostics"},
      {{"--ros2"}, {{"ROS_DOMAIN_ID", "robots"}}, "invalid ROS_DOMAIN_ID=robots"},
      {{"--ros2"}, {{"ROS_AUTOMATIC_DISCOVERY_RANGE", "OFF"}}, "no node can find the publisher"},
      {{"--ros2"}, {{"ROS_STATIC_PEERS", "a;<b>"}}, "invalid address '<b>' in ROS_STATIC_PEERS"},
  };
  for (const auto& each : cases) {
    std::vector<std::string> arguments{"serve", "--listen", "127.0.0.1:0"};
    arguments.insert(arguments.end(), each.arguments.begin(), each.arguments.end());
    CommandOptions options;
    options.environment = each.environment;
    const auto result = run_headroom(arguments, options);
    EXPECT_EQ(result.exit_code, 2) << each.message;
    EXPECT_THAT(result.err, HasSubstr(each.message));
  }
}

}  // namespace
}  // namespace headroom::test
