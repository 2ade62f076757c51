#include <gtest/gtest.h>

#include <cstdlib>

#include "serve/ros2/publisher.h"

namespace headroom::ros2 {
namespace {

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
};

TEST_F(Environment, DefaultsToDomainZeroOnTheSubnet) {
  const auto options = publisher_options_from_environment();
  ASSERT_TRUE(options);
  EXPECT_EQ(options->topic, "/diagnostics");
  EXPECT_EQ(options->domain, 0);
  EXPECT_FALSE(options->localhost_only);
  EXPECT_TRUE(options->static_peers.empty());
}

TEST_F(Environment, ReadsVariablesLikeRos2) {
  set("ROS_DOMAIN_ID", "42");
  set("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST");
  set("ROS_STATIC_PEERS", "192.168.1.7;robot-8.local;");
  auto options = publisher_options_from_environment();
  ASSERT_TRUE(options);
  EXPECT_EQ(options->domain, 42);
  EXPECT_TRUE(options->localhost_only);
  EXPECT_EQ(options->static_peers, (std::vector<std::string>{"192.168.1.7", "robot-8.local"}));
  set("ROS_LOCALHOST_ONLY", "0");  // the older variable takes precedence
  options = publisher_options_from_environment();
  EXPECT_FALSE(options->localhost_only);
  set("ROS_LOCALHOST_ONLY", "1");
  set("ROS_AUTOMATIC_DISCOVERY_RANGE", "SUBNET");
  EXPECT_TRUE(publisher_options_from_environment()->localhost_only);
}

TEST_F(Environment, RejectsInvalidValues) {
  for (const char* domain : {"233", "-1", "robots", "1.5"}) {
    set("ROS_DOMAIN_ID", domain);
    const auto options = publisher_options_from_environment();
    ASSERT_FALSE(options) << domain;
    EXPECT_EQ(options.error().kind, ErrorKind::usage);
  }
  clear();
  set("ROS_STATIC_PEERS", "a\"/><Tracing>");
  EXPECT_FALSE(publisher_options_from_environment());
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
