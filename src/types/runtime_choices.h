// Choices that a model runtime offers. Plug-ins compile this file as C++17.
#pragma once

#include <string_view>

#include "types/enum_names.h"

namespace headroom {

// hr_settings::graph_level: 0 none, 1 basic, 2 extended, 99 all (ONNX Runtime's values).
inline constexpr int kAllGraphLevels = 99;

enum class ArenaExtend { next_power_of_two, same_as_requested };
constexpr std::string_view name_of(ArenaExtend extend) {
  return name_in({"next_power_of_two", "same_as_requested"}, extend);
}

// How a GPU runtime chooses a convolution algorithm: time all of them, guess by rules, or always take the
// first.
enum class ConvSearch { exhaustive, heuristic, standard };
constexpr std::string_view name_of(ConvSearch search) {
  return name_in({"exhaustive", "heuristic", "default"}, search);
}

// The type in which a model computes, if its runtime can choose. fp32: the types in the model file, whatever
// they are.
enum class Precision { automatic, fp32, fp16, bf16 };
constexpr std::string_view name_of(Precision precision) {
  return name_in({"auto", "fp32", "fp16", "bf16"}, precision);
}

}  // namespace headroom
