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

std::string RuntimeSettings::describe() const {
  const auto on_off = [](bool on) { return on ? "on" : "off"; };
  std::string text = threads == 0 ? "threads=auto" : fmt::format("threads={}", threads);
  text += fmt::format(" arena={}", on_off(arena));
  if (arena) text += fmt::format(" extend={}", name_of(arena_extend));
  text += fmt::format(" pattern={} prepack={} graph={}", on_off(memory_pattern), on_off(prepacking),
                      graph_level == 99 ? "all" : std::to_string(graph_level));
  if (!spinning) text += " spinning=off";
  if (device == "cpu") return text;
  text += fmt::format(" device={} convolutions={}", device, name_of(conv_search));
  if (conv_small_workspace) text += " workspace=small";
  if (device_graph) text += " capture=on";
  return text;
}

}  // namespace headroom
