// ROS 2's diagnostic_msgs/DiagnosticArray as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace headroom::ros2 {

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

}  // namespace headroom::ros2
