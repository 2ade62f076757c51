#include "cli/flag_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"

namespace headroom::cli {
namespace {

std::string with_dashes(std::string_view name) {
  std::string text(name);
  std::ranges::replace(text, '_', '-');
  return text;
}

// Bounds as a person would type them.
std::string number_in_words(double number) { return fmt::format("{}", number); }
std::string size_in_words(double bytes) { return format_bytes({static_cast<std::int64_t>(bytes)}); }
std::string duration_in_words(double nanoseconds) {
  struct Unit {
    std::string_view name;
    double factor;
  };
  constexpr std::array<Unit, 4> kUnits{{{"h", 3600e9}, {"min", 60e9}, {"s", 1e9}, {"ms", 1e6}}};
  for (const Unit& unit : kUnits)  // the largest that gives a whole number
    if (nanoseconds >= unit.factor && std::fmod(nanoseconds, unit.factor) == 0)
      return fmt::format("{}{}", nanoseconds / unit.factor, unit.name);
  return fmt::format("{}ns", nanoseconds);
}

// `value` in the unit of the flag's bounds.
Status check_range(const Flag& flag, std::string_view text, double value, std::string_view noun,
                   std::string (*in_words)(double)) {
  if (value >= flag.minimum && value <= flag.maximum) return {};
  const std::string range =
      flag.maximum >= 1e300 ? fmt::format("at least {}", in_words(flag.minimum))
                            : fmt::format("from {} to {}", in_words(flag.minimum), in_words(flag.maximum));
  return usage_error(fmt::format("--{} {} is out of range", flag.name, text), "",
                     fmt::format("give a {} {}", noun, range));
}

template <class Number>
Status check_number(const Flag& flag, std::string_view text, std::string_view kind) {
  const auto number = parse_number<Number>(text);
  if (!number) return usage_error(fmt::format("--{} '{}' is not {}", flag.name, text, kind));
  return check_range(flag, text, static_cast<double>(*number), "number", number_in_words);
}

Status check_choice(const Flag& flag, std::string_view value) {
  if (std::ranges::find(flag.choices, value) != flag.choices.end()) return {};
  if (flag.choices.size() == 1)
    return usage_error(fmt::format("--{} '{}' is unknown", flag.name, value), "",
                       fmt::format("write --{} {}", flag.name, flag.choices[0]));
  return usage_error(
      fmt::format("--{} '{}' is not one of {}", flag.name, value, fmt::join(flag.choices, ", ")), "",
      did_you_mean(value, flag.choices));
}

// A value with a unit: the parser's sentence with the flag in front, or the range's.
template <class T>
Status check_quantity(const Flag& flag, std::string_view text, Result<T> parsed, std::string_view noun,
                      std::string (*in_words)(double)) {
  if (parsed) return check_range(flag, text, static_cast<double>(parsed->count), noun, in_words);
  parsed.error().what = fmt::format("--{}: {}", flag.name, parsed.error().what);
  return forward_error(parsed);
}

Flag make_flag(std::string name, FlagKind kind, std::string value_name, std::string help) {
  Flag flag;
  flag.name = std::move(name);
  flag.kind = kind;
  flag.value_name = std::move(value_name);
  flag.help = std::move(help);
  return flag;
}

}  // namespace

Flag toggle_flag(std::string name, std::string help) {
  return make_flag(std::move(name), FlagKind::toggle, "", std::move(help));
}

Flag text_flag(std::string name, std::string value_name, std::string help) {
  return make_flag(std::move(name), FlagKind::text, std::move(value_name), std::move(help));
}

Flag number_flag(std::string name, std::string help, double least, double most) {
  return make_flag(std::move(name), FlagKind::number, "N", std::move(help)).within(least, most);
}

Flag integer_flag(std::string name, std::string help, double least, double most) {
  return make_flag(std::move(name), FlagKind::integer, "N", std::move(help)).within(least, most);
}

Flag size_flag(std::string name, std::string help) {
  return make_flag(std::move(name), FlagKind::size, "SIZE", std::move(help));
}

Flag duration_flag(std::string name, std::string help) {
  return make_flag(std::move(name), FlagKind::duration, "TIME", std::move(help));
}

Flag choice_flag(std::string name, std::vector<std::string> choices, std::string help,
                 std::string value_name) {
  Flag flag = make_flag(std::move(name), FlagKind::choice, std::move(value_name), std::move(help));
  flag.default_text = choices.front();
  flag.choices = std::move(choices);
  return flag;
}

std::vector<Flag> grouped(std::vector<std::pair<std::string, std::vector<Flag>>> groups) {
  std::vector<Flag> flags;
  for (auto& [heading, members] : groups)
    for (Flag& flag : members) {
      flag.group = heading;
      flags.push_back(std::move(flag));
    }
  return flags;
}

const Flag* find_flag(const Verb& verb, std::string_view name) {
  const std::string wanted = with_dashes(name);
  for (const Flag& flag : verb.flags) {
    if (flag.name == wanted) return &flag;
    if (std::ranges::find(flag.aliases, wanted) != flag.aliases.end()) return &flag;
  }
  return nullptr;
}

Status check_value(const Flag& flag, std::string_view value) {
  switch (flag.kind) {
    case FlagKind::toggle:
      if (value == "true" || value == "false") return {};
      return usage_error(fmt::format("--{} '{}' is not true or false", flag.name, value));
    case FlagKind::text:
      if (!value.empty()) return {};
      return usage_error(fmt::format("--{} is empty", flag.name), "",
                         fmt::format("write --{} {}", flag.name, flag.value_name));
    case FlagKind::integer:
      return check_number<std::int64_t>(flag, value, "a whole number");
    case FlagKind::number:
      return check_number<double>(flag, value, "a number");
    case FlagKind::size:
      return check_quantity(flag, value, parse_size(value), "size", size_in_words);
    case FlagKind::duration:
      return check_quantity(flag, value, parse_duration(value), "time", duration_in_words);
    case FlagKind::choice:
      return check_choice(flag, value);
  }
  return {};
}

std::string FlagValues::text(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? std::string() : found->second.values.back();
}

std::vector<std::string> FlagValues::all(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? std::vector<std::string>() : found->second.values;
}

std::optional<std::int64_t> FlagValues::integer(std::string_view name) const {
  return has(name) ? parse_number<std::int64_t>(text(name)) : std::nullopt;
}

std::optional<double> FlagValues::number(std::string_view name) const {
  return has(name) ? parse_number<double>(text(name)) : std::nullopt;
}

std::string FlagValues::origin(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? "default" : found->second.origin;
}

Status at_most_one(const FlagValues& values, std::initializer_list<std::string_view> flags, std::string why,
                   std::string fix) {
  std::vector<std::string> given;
  for (const std::string_view flag : flags)
    if (values.has(flag)) given.push_back(fmt::format("--{}", flag));
  if (given.size() < 2) return {};
  return usage_error(fmt::format("{} cannot be combined", fmt::join(given, " and ")), std::move(why),
                     std::move(fix));
}

Status check_needed(const FlagValues& values, std::string_view flag, const std::string& needed) {
  const std::string name = needed.substr(0, needed.find(' '));
  if (values.has(name) || values.origin(flag) != kCommandLine) return {};
  return usage_error(fmt::format("--{} has no effect without --{}", flag, name), "",
                     fmt::format("add --{}, or remove --{}", needed, flag));
}

Status reject_flags(const FlagValues& values, std::initializer_list<std::string_view> flags,
                    std::string_view problem, const std::string& why, const std::string& fix) {
  for (const std::string_view flag : flags)
    if (values.has(flag)) return usage_error(fmt::format("--{} {}", flag, problem), why, fix);
  return {};
}

}  // namespace headroom::cli
