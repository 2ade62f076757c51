#include "cli/flag_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "base/units.h"

namespace headroom::cli {
namespace {

std::string with_dashes(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

template <class Number>
Status check_number(const Flag& flag, std::string_view value, std::string_view kind) {
  const auto number = parse_number<Number>(value);
  if (!number) return usage_error(fmt::format("--{} '{}' is not {}", flag.name, value, kind));
  const auto as_double = static_cast<double>(*number);
  if (!(as_double >= flag.minimum && as_double <= flag.maximum)) {
    const std::string range = flag.maximum >= 1e300
                                  ? fmt::format("at least {}", flag.minimum)
                                  : fmt::format("from {} to {}", flag.minimum, flag.maximum);
    return usage_error(fmt::format("--{} {} is out of range", flag.name, value), "",
                       fmt::format("give a number {}", range));
  }
  return {};
}

Status check_choice(const Flag& flag, std::string_view value) {
  if (std::find(flag.choices.begin(), flag.choices.end(), value) != flag.choices.end()) return {};
  const std::string closest = closest_match(value, flag.choices);
  return usage_error(
      fmt::format("--{} '{}' is not one of {}", flag.name, value, fmt::join(flag.choices, ", ")), "",
      closest.empty() ? "" : fmt::format("did you mean '{}'?", closest));
}

// The sentence of a unit parser, with the flag in front.
template <class T>
Status named(const Flag& flag, Result<T> parsed) {
  if (parsed) return {};
  parsed.error().what = fmt::format("--{}: {}", flag.name, parsed.error().what);
  return forward_error(parsed);
}

}  // namespace

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
      return usage_error(fmt::format("--{} '{}' is neither true nor false", flag.name, value));
    case FlagKind::text:
      if (!value.empty()) return {};
      return usage_error(fmt::format("--{} is empty", flag.name), "",
                         fmt::format("give it a {}", flag.value_name));
    case FlagKind::integer:
      return check_number<std::int64_t>(flag, value, "a whole number");
    case FlagKind::number:
    case FlagKind::gigabytes:
    case FlagKind::megabytes:
      return check_number<double>(flag, value, "a number");
    case FlagKind::size:
      return named(flag, parse_size(value));
    case FlagKind::duration:
      return named(flag, parse_duration(value));
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
