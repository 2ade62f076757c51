// Publishers of diagnostics. Each is a plug-in behind the C interface of publisher_plugin.h, because no other
// command needs their libraries.
//   libheadroom_ros2_rclcpp.so      a ROS 2 node, with the middleware of the installed ROS 2
//   libheadroom_ros2_cyclonedds.so  without ROS: sends the same messages with Cyclone DDS
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace headroom::ros2 {

// --- ROS 2's diagnostic_msgs/DiagnosticArray as plain data.

// The numbers are those of the ROS message.
enum class DiagnosticLevel : std::uint8_t { ok = 0, warn = 1, error = 2, stale = 3 };

struct KeyValue {
  std::string key, value;
  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

// The status of one component of a robot. All texts are UTF-8: ROS nodes in Python fail on other encodings.
struct DiagnosticStatus {
  DiagnosticLevel level = DiagnosticLevel::ok;
  std::string name;  // "headroom: memory": node and component
  std::string message;
  std::string hardware_id;
  std::vector<KeyValue> values;
  friend bool operator==(const DiagnosticStatus&, const DiagnosticStatus&) = default;
};

struct DiagnosticArray {
  Nanoseconds stamp;  // wall clock, since 1970
  std::vector<DiagnosticStatus> status;
  friend bool operator==(const DiagnosticArray&, const DiagnosticArray&) = default;
};

struct PublisherOptions {
  std::string topic = "/diagnostics";
  int domain = 0;
  // ROS_LOCALHOST_ONLY=1, or ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST: only this machine.
  bool localhost_only = false;
  std::vector<std::string> static_peers;  // ROS_STATIC_PEERS: additional hosts for discovery
};

class DiagnosticsPublisher {
 public:
  virtual ~DiagnosticsPublisher() = default;
  virtual Status start(const PublisherOptions& options) = 0;
  // Sends the message to all subscribers without waiting for them.
  virtual Status publish(const DiagnosticArray& array) = 0;
};

// "rclcpp", "cyclonedds", or "auto": the first of the two that exists and can be loaded.
Result<std::unique_ptr<DiagnosticsPublisher>> load_diagnostics_publisher(std::string_view name);

// Reads ROS 2's environment variables. Errors: an invalid domain or address, or a discovery range of OFF.
Result<PublisherOptions> publisher_options_from_environment();

// True for absolute topic names that ROS 2 accepts, such as "/robot_7/diagnostics".
bool is_topic_name(std::string_view name);

}  // namespace headroom::ros2
