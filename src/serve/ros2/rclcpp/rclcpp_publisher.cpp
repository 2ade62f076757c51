// The publisher as a ROS 2 node, "/headroom". It is built if rclcpp and diagnostic_msgs are installed.
#include <fmt/format.h>

#include <diagnostic_msgs/msg/diagnostic_array.hpp>
#include <exception>
#include <rclcpp/rclcpp.hpp>

#include "serve/ros2/publisher.h"

namespace headroom::ros2 {
namespace {

using Message = diagnostic_msgs::msg::DiagnosticArray;

class RclcppPublisher : public DiagnosticsPublisher {
 public:
  ~RclcppPublisher() override {
    publisher_.reset();
    node_.reset();
    if (context_ && context_->is_valid()) context_->shutdown("headroom has ended");
  }

  // Uses its own context, so that Headroom keeps its signal handlers. rclcpp itself reads the environment
  // variables for discovery.
  Status start(const PublisherOptions& options) override {
    try {
      rclcpp::InitOptions init;
      init.shutdown_on_signal = false;
      init.auto_initialize_logging(false);
      init.set_domain_id(static_cast<std::size_t>(options.domain));
      context_ = std::make_shared<rclcpp::Context>();
      context_->init(0, nullptr, init);
      const auto node_options = rclcpp::NodeOptions()
                                    .context(context_)
                                    .use_global_arguments(false)
                                    .start_parameter_services(false)
                                    .start_parameter_event_publisher(false)
                                    .enable_rosout(false);
      node_ = std::make_shared<rclcpp::Node>("headroom", node_options);
      publisher_ = node_->create_publisher<Message>(options.topic, rclcpp::QoS(1).reliable());
    } catch (const std::exception& error) {
      return failure(fmt::format("cannot publish {} in domain {}", options.topic, options.domain),
                     error.what(), "check ROS 2's environment (ROS_DOMAIN_ID, RMW_IMPLEMENTATION)");
    }
    return {};
  }

  Status publish(const DiagnosticArray& array) override {
    Message message;
    message.header.stamp.sec = static_cast<std::int32_t>(array.stamp.count / 1'000'000'000);
    message.header.stamp.nanosec = static_cast<std::uint32_t>(array.stamp.count % 1'000'000'000);
    for (const DiagnosticStatus& status : array.status) {
      diagnostic_msgs::msg::DiagnosticStatus& put = message.status.emplace_back();
      put.level = static_cast<std::uint8_t>(status.level);
      put.name = status.name;
      put.message = status.message;
      put.hardware_id = status.hardware_id;
      for (const KeyValue& pair : status.values) {
        diagnostic_msgs::msg::KeyValue& value = put.values.emplace_back();
        value.key = pair.key;
        value.value = pair.value;
      }
    }
    try {
      publisher_->publish(message);
    } catch (const std::exception& error) {
      return internal_error("cannot send diagnostics", error.what());
    }
    return {};
  }

 private:
  std::shared_ptr<rclcpp::Context> context_;
  std::shared_ptr<rclcpp::Node> node_;
  std::shared_ptr<rclcpp::Publisher<Message>> publisher_;
};

}  // namespace
}  // namespace headroom::ros2

extern "C" __attribute__((visibility("default"))) headroom::ros2::DiagnosticsPublisher*
headroom_diagnostics_publisher_v1() {
  return new headroom::ros2::RclcppPublisher;
}
