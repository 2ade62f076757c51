// ROS 2's diagnostic_msgs/DiagnosticArray. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace headroom::ros2 {

// The numbers are the message's own.
enum class DiagnosticLevel : std::uint8_t { ok = 0, warn = 1, error = 2, stale = 3 };

struct KeyValue {
  std::string key, value;
  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

// One component of a robot. All texts are UTF-8: a ROS node in Python fails on any other.
struct DiagnosticStatus {
  DiagnosticLevel level = DiagnosticLevel::ok;
  std::string name;  // "headroom: memory": the node, then what it tells of
  std::string message;
  std::string hardware_id;
  std::vector<KeyValue> values;
  friend bool operator==(const DiagnosticStatus&, const DiagnosticStatus&) = default;
};

struct DiagnosticArray {
  Nanoseconds stamp;  // of the wall clock, since 1970
  std::vector<DiagnosticStatus> status;
  friend bool operator==(const DiagnosticArray&, const DiagnosticArray&) = default;
};

}  // namespace headroom::ros2
