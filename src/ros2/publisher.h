// Where diagnostics go. A plug-in each, found beside the program: none of their libraries is of use to any
// other verb.
//   libheadroom_ros2_rclcpp.so      a ROS 2 node, by whatever middleware that ROS 2 uses
//   libheadroom_ros2_cyclonedds.so  without ROS: what a ROS 2 node would send, by Cyclone DDS
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ros2/diagnostic_array.h"

namespace headroom::ros2 {

struct PublisherOptions {
  std::string topic = "/diagnostics";
  int domain = 0;
  // ROS_LOCALHOST_ONLY=1, or ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST: this machine alone.
  bool localhost_only = false;
  std::vector<std::string> static_peers;  // ROS_STATIC_PEERS: who is asked besides
};

class DiagnosticsPublisher {
 public:
  virtual ~DiagnosticsPublisher() = default;
  virtual Status start(const PublisherOptions& options) = 0;
  // Hands it to those who listen, and does not wait for them.
  virtual Status publish(const DiagnosticArray& array) = 0;
};

using DiagnosticsPublisherFunction = DiagnosticsPublisher* (*)();
inline constexpr const char* kDiagnosticsPublisherSymbol = "headroom_diagnostics_publisher_v1";

// "rclcpp" or "cyclonedds"; "auto": the first of the two that is there and can be loaded.
Result<std::unique_ptr<DiagnosticsPublisher>> load_diagnostics_publisher(std::string_view name);

// Options as ROS 2's environment variables have them. Errors: no domain, a range in which nobody can be
// found.
Result<PublisherOptions> publisher_options_from_environment();

// True for names that ROS 2 takes for a topic from the root on: "/robot_7/diagnostics".
bool is_topic_name(std::string_view name);

}  // namespace headroom::ros2
