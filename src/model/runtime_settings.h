// Settings of a model runtime that --tune searches and that a run records. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"

namespace headroom {

enum class ArenaExtend { next_power_of_two, same_as_requested };
std::string_view name_of(ArenaExtend extend);

struct RuntimeSettings {
  int threads = 0;  // intra-op; 0: the runtime's own choice
  bool arena = true;
  ArenaExtend arena_extend = ArenaExtend::next_power_of_two;
  bool memory_pattern = true;
  bool prepacking = true;
  int graph_level = 99;  // 0 none, 1 basic, 2 extended, 99 all (ONNX Runtime's values)
  bool spinning = true;  // worker threads spin before they sleep
  std::string device = "cpu";
  friend bool operator==(const RuntimeSettings&, const RuntimeSettings&) = default;
  // "threads=2 arena=off pattern=on prepack=on graph=all".
  std::string describe() const;
};

}  // namespace headroom
