// The publisher as a ROS 2 node, "/headroom". It is built if rclcpp and diagnostic_msgs are installed, by
// CMake or by headroom build-plugin.
#include <cstdint>
#include <diagnostic_msgs/msg/diagnostic_array.hpp>
#include <memory>
#include <rclcpp/rclcpp.hpp>
#if __has_include(<rclcpp/version.h>)
#include <rclcpp/version.h>
#endif

#include "serve/ros2/publisher_calls.h"

namespace headroom::ros2 {
namespace {

using Message = diagnostic_msgs::msg::DiagnosticArray;

#ifdef RCLCPP_VERSION_STR
constexpr const char* kVersion = RCLCPP_VERSION_STR;
#else
constexpr const char* kVersion = "";
#endif

class RclcppPublisher {
 public:
  static constexpr const char* kStartFix = "check ROS 2's environment (ROS_DOMAIN_ID, RMW_IMPLEMENTATION)";

  // Uses its own context, so that Headroom keeps its signal handlers. rclcpp itself reads the environment
  // variables for discovery.
  explicit RclcppPublisher(const hr_publisher_options& options) {
    rclcpp::InitOptions init;
    init.shutdown_on_signal = false;
    init.auto_initialize_logging(false);
    init.set_domain_id(static_cast<std::size_t>(options.domain));
    context_->init(0, nullptr, init);
    const auto node_options = rclcpp::NodeOptions()
                                  .context(context_)
                                  .use_global_arguments(false)
                                  .start_parameter_services(false)
                                  .start_parameter_event_publisher(false)
                                  .enable_rosout(false);
    node_ = std::make_shared<rclcpp::Node>("headroom", node_options);
    publisher_ = node_->create_publisher<Message>(options.topic, rclcpp::QoS(1).reliable());
  }
  ~RclcppPublisher() {
    publisher_.reset();
    node_.reset();
    if (context_->is_valid()) context_->shutdown("headroom has ended");
  }
  RclcppPublisher(const RclcppPublisher&) = delete;
  RclcppPublisher& operator=(const RclcppPublisher&) = delete;

  void publish(const hr_diagnostic_array& array) {
    Message message;
    message.header.stamp.sec = static_cast<std::int32_t>(array.stamp_ns / 1'000'000'000);
    message.header.stamp.nanosec = static_cast<std::uint32_t>(array.stamp_ns % 1'000'000'000);
    for (std::size_t i = 0; i < array.status_count; ++i) {
      const hr_diagnostic_status& status = array.status[i];
      diagnostic_msgs::msg::DiagnosticStatus& put = message.status.emplace_back();
      put.level = static_cast<std::uint8_t>(status.level);
      put.name = status.name;
      put.message = status.message;
      put.hardware_id = status.hardware_id;
      for (std::size_t j = 0; j < status.value_count; ++j) {
        diagnostic_msgs::msg::KeyValue& value = put.values.emplace_back();
        value.key = status.values[j].key;
        value.value = status.values[j].value;
      }
    }
    publisher_->publish(message);
  }

 private:
  std::shared_ptr<rclcpp::Context> context_ = std::make_shared<rclcpp::Context>();
  std::shared_ptr<rclcpp::Node> node_;
  std::shared_ptr<rclcpp::Publisher<Message>> publisher_;
};

}  // namespace
}  // namespace headroom::ros2

extern "C" __attribute__((visibility("default"))) const hr_publisher_plugin* headroom_publisher(void) {
  static const hr_publisher_plugin kTable =
      headroom::ros2::publisher_table<headroom::ros2::RclcppPublisher>("rclcpp", headroom::ros2::kVersion);
  return &kTable;
}
