// Settings of a model runtime that --tune searches and that a run records. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/units.h"
#include "types/runtime_choices.h"

namespace headroom {

std::optional<ConvSearch> parse_conv_search(std::string_view name);
std::optional<Precision> parse_precision(std::string_view name);

struct RuntimeSettings {
  int threads = 0;  // intra-op; 0: the runtime chooses
  bool arena = true;
  ArenaExtend arena_extend = ArenaExtend::next_power_of_two;
  bool memory_pattern = true;
  bool prepacking = true;
  int graph_level = kAllGraphLevels;
  bool spinning = true;  // worker threads spin before they sleep
  std::string device = "cpu";
  // For a finished run: the precision that was used, if the runtime reports it.
  Precision precision = Precision::automatic;
  // Above 0: all models of the process share one arena of this size for their runs, allocated at first use
  // (model-pool.md).
  Bytes shared_arena{};
  // For GPUs. `arena_extend` then applies to the device arena.
  ConvSearch conv_search = ConvSearch::exhaustive;
  bool conv_small_workspace = false;  // only algorithms that need little memory besides the tensors
  bool device_graph = false;          // a run is captured as one CUDA graph and replayed
  // The model is converted once to a format whose weights are mapped from the file instead of read into
  // memory.
  bool mapped = false;
  friend bool operator==(const RuntimeSettings&, const RuntimeSettings&) = default;
  // "threads=2 arena=off pattern=on prepack=on graph=all".
  std::string describe() const;
};

// The settings in describe() that can be set by name: "arena", "prepack", …
std::span<const std::string_view> setting_names();
// The values that a setting accepts, for error messages: "on or off". Empty if the name is unknown.
std::string_view values_of_setting(std::string_view name);
// Sets one: "arena", "off". Returns false if the name or the value is unknown.
bool set_setting(RuntimeSettings& settings, std::string_view name, std::string_view word);
// Sets several: "arena=off,prepack=off". Returns false at the first unknown one.
bool set_settings(RuntimeSettings& settings, std::string_view words);
// The settings in which `wanted` differs from `from`: "arena=off,prepack=off"; empty if none.
std::string changed_settings(const RuntimeSettings& from, const RuntimeSettings& wanted);

}  // namespace headroom
