// One frame through one model. Plain data.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace headroom {

struct FrameTimes {
  Nanoseconds decode, preprocess, inference, postprocess;
  std::int64_t findings = 0;
  std::optional<Nanoseconds> device{};  // inference time by the device's clock

  Nanoseconds end_to_end() const { return decode + preprocess + inference + postprocess; }
  friend bool operator==(const FrameTimes&, const FrameTimes&) = default;
};

}  // namespace headroom
