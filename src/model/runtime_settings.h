// Settings of a model runtime that --tune searches and that a run records. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/units.h"

namespace headroom {

enum class ArenaExtend { next_power_of_two, same_as_requested };
std::string_view name_of(ArenaExtend extend);

// How the algorithm of a convolution is found on a GPU: every one timed, a guess by rules, or the first
// choice for all.
enum class ConvSearch { exhaustive, heuristic, standard };
std::string_view name_of(ConvSearch search);
std::optional<ConvSearch> parse_conv_search(std::string_view name);

// What a model computes in where its runtime can choose. fp32: in the types of its file, whatever they are.
enum class Precision { automatic, fp32, fp16, bf16 };
std::string_view name_of(Precision precision);  // "auto", "fp32", …
std::optional<Precision> parse_precision(std::string_view name);

struct RuntimeSettings {
  int threads = 0;  // intra-op; 0: the runtime's own choice
  bool arena = true;
  ArenaExtend arena_extend = ArenaExtend::next_power_of_two;
  bool memory_pattern = true;
  bool prepacking = true;
  int graph_level = 99;  // 0 none, 1 basic, 2 extended, 99 all (ONNX Runtime's values)
  bool spinning = true;  // worker threads spin before they sleep
  std::string device = "cpu";
  Precision precision = Precision::automatic;  // of a run: the one in force, where the runtime tells it
  // More than 0: one arena of the process, of this size from its first use on, for what runs need
  // (model-pool.md).
  Bytes shared_arena{};
  // Of GPUs. `arena_extend` is then the device's arena's.
  ConvSearch conv_search = ConvSearch::exhaustive;
  bool conv_small_workspace = false;  // only algorithms that need little memory beside the tensors
  bool device_graph = false;          // runs are captured as one graph and replayed
  // The model is prepared once in a form whose weights are mapped from the file, not read into memory.
  bool mapped = false;
  friend bool operator==(const RuntimeSettings&, const RuntimeSettings&) = default;
  // "threads=2 arena=off pattern=on prepack=on graph=all".
  std::string describe() const;
};

// The words of describe() that can be set by name: "arena", "prepack", …
std::span<const std::string_view> setting_names();
// Sets one by its word: "arena", "off". False where there is no such name, or no such value of it.
bool set_by_word(RuntimeSettings& settings, std::string_view name, std::string_view word);
// Several: "arena=off,prepack=off". False at the first that is none.
bool set_by_words(RuntimeSettings& settings, std::string_view words);
// What makes `wanted` of `from`: "arena=off,prepack=off"; empty if they are alike.
std::string changed_words(const RuntimeSettings& from, const RuntimeSettings& wanted);

}  // namespace headroom
