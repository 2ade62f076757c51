#include "types/runtime_settings.h"

#include <fmt/format.h>

#include <array>

#include "base/text.h"

namespace headroom {
namespace {

std::string_view word_of(bool on) { return on ? "on" : "off"; }

template <class T>
bool take(const std::optional<T>& read, T& target) {
  if (read) target = *read;
  return read.has_value();
}

std::optional<bool> switch_of(std::string_view word) {
  if (word == "on" || word == "true") return true;
  if (word == "off" || word == "false") return false;
  return std::nullopt;
}

// One entry per setting: name, accepted values, parser, formatter.
struct Setting {
  std::string_view name, values;
  bool (*set)(RuntimeSettings&, std::string_view);
  std::string (*get)(const RuntimeSettings&);
};

template <bool RuntimeSettings::*field>
constexpr Setting switched(std::string_view name) {
  return {name, "on or off",
          [](RuntimeSettings& s, std::string_view word) { return take(switch_of(word), s.*field); },
          [](const RuntimeSettings& s) { return std::string(word_of(s.*field)); }};
}

constexpr std::array kSettings{
    Setting{"threads", "0 to 1024, or auto",
            [](RuntimeSettings& s, std::string_view word) {
              constexpr int kMost = 1024;
              const auto number = word == "auto" ? std::optional(0) : parse_number<int>(word);
              return number && *number >= 0 && *number <= kMost && take(number, s.threads);
            },
            [](const RuntimeSettings& s) { return s.threads == 0 ? "auto" : std::to_string(s.threads); }},
    switched<&RuntimeSettings::arena>("arena"),
    Setting{"extend", "next_power_of_two or same_as_requested",
            [](RuntimeSettings& s, std::string_view word) {
              return take(find_named(word, ArenaExtend::same_as_requested), s.arena_extend);
            },
            [](const RuntimeSettings& s) { return std::string(name_of(s.arena_extend)); }},
    switched<&RuntimeSettings::memory_pattern>("pattern"),
    switched<&RuntimeSettings::prepacking>("prepack"),
    Setting{
        "graph", "0, 1, 2 or all",
        [](RuntimeSettings& s, std::string_view word) {
          const auto level = word == "all" ? std::optional(99) : parse_number<int>(word);
          return level && ((*level >= 0 && *level <= 2) || *level == 99) && take(level, s.graph_level);
        },
        [](const RuntimeSettings& s) { return s.graph_level == 99 ? "all" : std::to_string(s.graph_level); }},
    switched<&RuntimeSettings::spinning>("spinning"),
    switched<&RuntimeSettings::mapped>("mapped"),
    Setting{"convolutions", "exhaustive, heuristic or default",
            [](RuntimeSettings& s, std::string_view word) {
              return take(parse_conv_search(word), s.conv_search);
            },
            [](const RuntimeSettings& s) { return std::string(name_of(s.conv_search)); }},
    Setting{"workspace", "small or large",
            [](RuntimeSettings& s, std::string_view word) {
              if (word != "small" && word != "large") return false;
              s.conv_small_workspace = word == "small";
              return true;
            },
            [](const RuntimeSettings& s) { return std::string(s.conv_small_workspace ? "small" : "large"); }},
    switched<&RuntimeSettings::device_graph>("capture"),
};

constexpr auto kNames = [] {
  std::array<std::string_view, kSettings.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kSettings[i].name;
  return names;
}();

}  // namespace

std::optional<ConvSearch> parse_conv_search(std::string_view name) {
  return find_named(name, ConvSearch::standard);
}
std::optional<Precision> parse_precision(std::string_view name) { return find_named(name, Precision::bf16); }

std::string RuntimeSettings::describe() const {
  std::string text = threads == 0 ? "threads=auto" : fmt::format("threads={}", threads);
  text += fmt::format(" arena={}", word_of(arena));
  if (arena) text += fmt::format(" extend={}", name_of(arena_extend));
  text += fmt::format(" pattern={} prepack={} graph={}", word_of(memory_pattern), word_of(prepacking),
                      graph_level == 99 ? "all" : std::to_string(graph_level));
  if (!spinning) text += " spinning=off";
  if (mapped) text += " mapped=on";
  if (precision != Precision::automatic) text += fmt::format(" precision={}", name_of(precision));
  if (device == "cpu") return text;
  text += fmt::format(" device={} convolutions={}", device, name_of(conv_search));
  if (conv_small_workspace) text += " workspace=small";
  if (device_graph) text += " capture=on";
  return text;
}

std::span<const std::string_view> setting_names() { return kNames; }

std::string_view values_of_setting(std::string_view name) {
  for (const Setting& setting : kSettings)
    if (setting.name == name) return setting.values;
  return {};
}

bool set_setting(RuntimeSettings& settings, std::string_view name, std::string_view word) {
  for (const Setting& setting : kSettings)
    if (setting.name == name) return setting.set(settings, word);
  return false;
}

bool set_settings(RuntimeSettings& settings, std::string_view words) {
  if (words.empty()) return true;
  for (const std::string_view part : split(words, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == part.npos || !set_setting(settings, part.substr(0, equals), part.substr(equals + 1)))
      return false;
  }
  return true;
}

std::string changed_settings(const RuntimeSettings& from, const RuntimeSettings& wanted) {
  std::string words;
  for (const Setting& setting : kSettings) {
    const std::string word = setting.get(wanted);
    if (word != setting.get(from))
      words += fmt::format("{}{}={}", words.empty() ? "" : ",", setting.name, word);
  }
  return words;
}

}  // namespace headroom
