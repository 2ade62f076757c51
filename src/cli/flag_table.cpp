#include "cli/flag_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "base/units.h"

namespace headroom::cli {
namespace {

std::string with_dashes(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
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
  if (std::find(flag.choices.begin(), flag.choices.end(), value) != flag.choices.end()) return {};
  if (flag.choices.size() == 1)
    return usage_error(fmt::format("--{} '{}' is unknown", flag.name, value), "",
                       fmt::format("write --{} {}", flag.name, flag.choices[0]));
  const std::string closest = closest_match(value, flag.choices);
  return usage_error(
      fmt::format("--{} '{}' is not one of {}", flag.name, value, fmt::join(flag.choices, ", ")), "",
      closest.empty() ? "" : fmt::format("did you mean '{}'?", closest));
}

// A value with a unit: the parser's sentence with the flag in front, or the range's.
template <class T>
Status check_quantity(const Flag& flag, std::string_view text, Result<T> parsed, std::string_view noun,
                      std::string (*in_words)(double)) {
  if (parsed) return check_range(flag, text, static_cast<double>(parsed->count), noun, in_words);
  parsed.error().what = fmt::format("--{}: {}", flag.name, parsed.error().what);
  return forward_error(parsed);
}

}  // namespace

Flag Flag::with_default(std::string text) const {
  Flag flag = *this;
  flag.default_text = std::move(text);
  return flag;
}

Flag Flag::within(double least, double most) const {
  Flag flag = *this;
  flag.minimum = least;
  flag.maximum = most;
  return flag;
}

Flag Flag::also(std::string alias) const {
  Flag flag = *this;
  flag.aliases.push_back(std::move(alias));
  return flag;
}

Flag Flag::repeatable() const {
  Flag flag = *this;
  flag.repeated = true;
  return flag;
}

Flag Flag::rare() const {
  Flag flag = *this;
  flag.common = false;
  return flag;
}

Flag toggle_flag(std::string name, std::string help) {
  Flag flag;
  flag.name = std::move(name);
  flag.help = std::move(help);
  return flag;
}

Flag text_flag(std::string name, std::string value_name, std::string help) {
  Flag flag = toggle_flag(std::move(name), std::move(help));
  flag.kind = FlagKind::text;
  flag.value_name = std::move(value_name);
  return flag;
}

Flag number_flag(std::string name, FlagKind kind, std::string help, double least, double most) {
  Flag flag = text_flag(std::move(name), "N", std::move(help));
  flag.kind = kind;
  return flag.within(least, most);
}

Flag integer_flag(std::string name, std::string help, double least, double most) {
  return number_flag(std::move(name), FlagKind::integer, std::move(help), least, most);
}

Flag size_flag(std::string name, std::string help) {
  Flag flag = text_flag(std::move(name), "SIZE", std::move(help));
  flag.kind = FlagKind::size;
  return flag;
}

Flag duration_flag(std::string name, std::string help) {
  Flag flag = text_flag(std::move(name), "TIME", std::move(help));
  flag.kind = FlagKind::duration;
  return flag;
}

Flag choice_flag(std::string name, std::vector<std::string> choices, std::string help) {
  Flag flag = text_flag(std::move(name), "WORD", std::move(help));
  flag.kind = FlagKind::choice;
  flag.default_text = choices.front();
  flag.choices = std::move(choices);
  return flag;
}

void add_group(std::vector<Flag>& flags, const std::string& group, std::vector<Flag> more) {
  for (Flag& flag : more) {
    flag.group = group;
    flags.push_back(std::move(flag));
  }
}

const Flag* find_flag(const Verb& verb, std::string_view name) {
  const std::string wanted = with_dashes(name);
  for (const Flag& flag : verb.flags) {
    if (flag.name == wanted) return &flag;
    if (std::find(flag.aliases.begin(), flag.aliases.end(), wanted) != flag.aliases.end()) return &flag;
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
    case FlagKind::gigabytes:
    case FlagKind::megabytes:
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

bool FlagValues::has(std::string_view name) const { return entries_.find(name) != entries_.end(); }

bool FlagValues::toggle(std::string_view name) const { return text(name) == "true"; }

std::string FlagValues::text(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() || found->second.values.empty() ? std::string()
                                                                 : found->second.values.back();
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

}  // namespace headroom::cli
