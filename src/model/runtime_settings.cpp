#include "model/runtime_settings.h"

#include <fmt/format.h>

namespace headroom {

std::string_view name_of(ArenaExtend extend) {
  return extend == ArenaExtend::same_as_requested ? "same_as_requested" : "next_power_of_two";
}

std::string_view name_of(ConvSearch search) {
  switch (search) {
    case ConvSearch::exhaustive:
      return "exhaustive";
    case ConvSearch::heuristic:
      return "heuristic";
    case ConvSearch::standard:
      return "default";
  }
  return "";
}

std::optional<ConvSearch> parse_conv_search(std::string_view name) {
  for (const ConvSearch search : {ConvSearch::exhaustive, ConvSearch::heuristic, ConvSearch::standard})
    if (name == name_of(search)) return search;
  return std::nullopt;
}

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::automatic:
      return "auto";
    case Precision::fp32:
      return "fp32";
    case Precision::fp16:
      return "fp16";
    case Precision::bf16:
      return "bf16";
  }
  return "";
}

std::optional<Precision> parse_precision(std::string_view name) {
  for (const Precision precision : {Precision::automatic, Precision::fp32, Precision::fp16, Precision::bf16})
    if (name == name_of(precision)) return precision;
  return std::nullopt;
}

std::string RuntimeSettings::describe() const {
  const auto on_off = [](bool on) { return on ? "on" : "off"; };
  std::string text = threads == 0 ? "threads=auto" : fmt::format("threads={}", threads);
  text += fmt::format(" arena={}", on_off(arena));
  if (arena) text += fmt::format(" extend={}", name_of(arena_extend));
  text += fmt::format(" pattern={} prepack={} graph={}", on_off(memory_pattern), on_off(prepacking),
                      graph_level == 99 ? "all" : std::to_string(graph_level));
  if (!spinning) text += " spinning=off";
  if (precision != Precision::automatic) text += fmt::format(" precision={}", name_of(precision));
  if (device == "cpu") return text;
  text += fmt::format(" device={} convolutions={}", device, name_of(conv_search));
  if (conv_small_workspace) text += " workspace=small";
  if (device_graph) text += " capture=on";
  return text;
}

}  // namespace headroom
