// Subscribes as a real ROS 2 node, and prints each message as a JSON line. The first line describes the
// publisher. Usage: ros2_subscriber_rclcpp DOMAIN TOPIC, with the DDS name of the topic
#include <cstdio>
#include <cstdlib>
#include <diagnostic_msgs/msg/diagnostic_array.hpp>
#include <rclcpp/rclcpp.hpp>
#include <string>

#include "base/json.h"

namespace headroom::test {
namespace {

using Message = diagnostic_msgs::msg::DiagnosticArray;

void print(const Json& document) {
  std::puts(to_line(document).c_str());
  std::fflush(stdout);
}

Json to_json(const Message& array) {
  Json document = {{"sec", array.header.stamp.sec},
                   {"nanosec", array.header.stamp.nanosec},
                   {"frame_id", array.header.frame_id},
                   {"status", Json::array()}};
  for (const auto& status : array.status) {
    Json values = Json::object();
    for (const auto& pair : status.values) values[pair.key] = pair.value;
    document["status"].push_back({{"level", status.level},
                                  {"name", status.name},
                                  {"message", status.message},
                                  {"hardware_id", status.hardware_id},
                                  {"values", std::move(values)}});
  }
  return document;
}

int listen(std::size_t domain, const std::string& topic) {
  rclcpp::InitOptions init;
  init.set_domain_id(domain);
  rclcpp::init(0, nullptr, init);
  const auto node = std::make_shared<rclcpp::Node>("listener");
  bool is_known = false;
  // The QoS of diagnostic_aggregator.
  const auto subscription = node->create_subscription<Message>(
      topic, rclcpp::SystemDefaultsQoS().keep_last(1000), [&](const Message& message) {
        for (const auto& publisher : node->get_publishers_info_by_topic(topic)) {
          if (is_known) break;
          is_known = true;
          print({{"topic", "rt" + topic},
                 {"type", publisher.topic_type()},
                 {"node", publisher.node_name()},
                 {"reliable", publisher.qos_profile().reliability() == rclcpp::ReliabilityPolicy::Reliable},
                 {"volatile", publisher.qos_profile().durability() == rclcpp::DurabilityPolicy::Volatile}});
        }
        print(to_json(message));
      });
  rclcpp::spin(node);
  return 0;
}

}  // namespace
}  // namespace headroom::test

int main(int count, char** arguments) {
  if (count != 3) return 2;
  return headroom::test::listen(static_cast<std::size_t>(std::atoi(arguments[1])),
                                std::string(arguments[2]).substr(2));
}
