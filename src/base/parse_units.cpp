#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <span>

#include "base/text.h"
#include "base/units.h"

namespace headroom {
namespace {

struct Unit {
  std::string_view name;  // lower case
  double factor;
};

constexpr std::array<Unit, 15> kSizeUnits{{{"b", 1.0},
                                           {"k", 1024.0},
                                           {"kib", 1024.0},
                                           {"kb", 1e3},
                                           {"m", 1048576.0},
                                           {"mib", 1048576.0},
                                           {"mb", 1e6},
                                           {"g", 1073741824.0},
                                           {"gib", 1073741824.0},
                                           {"gb", 1e9},
                                           {"t", 1099511627776.0},
                                           {"tib", 1099511627776.0},
                                           {"tb", 1e12},
                                           {"byte", 1.0},
                                           {"bytes", 1.0}}};

constexpr std::array<Unit, 9> kTimeUnits{{{"ns", 1.0},
                                          {"us", 1e3},
                                          {"µs", 1e3},
                                          {"ms", 1e6},
                                          {"s", 1e9},
                                          {"sec", 1e9},
                                          {"min", 60e9},
                                          {"h", 3600e9},
                                          {"", 1e9}}};

struct Quantity {
  double value;
  std::string unit;  // lower case, trimmed
};

Result<Quantity> split_quantity(std::string_view text) {
  const std::string_view trimmed = trim(text);
  double value = 0;
  const auto [end, code] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), value);
  if (code != std::errc{} || !std::isfinite(value))
    return usage_error(fmt::format("'{}' is not a number with a unit", text));
  if (value < 0) return usage_error(fmt::format("'{}' is negative", text));
  return Quantity{value, to_lower(trim(trimmed.substr(static_cast<std::size_t>(end - trimmed.data()))))};
}

// The largest usable double below 2^63, so that the product converts to int64 without overflow.
constexpr double kLargestCount = 9.2e18;

// The quantity in the smallest unit. `what`: "size" or "time"; `known`: the units to use instead.
Result<std::int64_t> count_in(std::span<const Unit> units, const Quantity& quantity, std::string_view text,
                              const char* what, const char* known) {
  const auto unit = std::ranges::find(units, quantity.unit, &Unit::name);
  if (unit == units.end())
    return usage_error(fmt::format("{} '{}' has the unknown unit '{}'", what, text, quantity.unit), "",
                       known);
  const double count = quantity.value * unit->factor;
  if (count > kLargestCount) return usage_error(fmt::format("{} '{}' is too large", what, text));
  return static_cast<std::int64_t>(std::llround(count));
}

}  // namespace

Result<Bytes> parse_size(std::string_view text) {
  auto quantity = split_quantity(text);
  if (!quantity) {
    quantity.error().fix = "write a size such as 512MiB, 8GB or 1.5G";
    return forward_error(quantity);
  }
  if (quantity->unit.empty())
    return usage_error(fmt::format("size '{}' has no unit", text), "a bare number is ambiguous",
                       quantity->value > 0 ? fmt::format("write {0}MiB, {0}GB or {0}B", trim(text))
                                           : "write a size such as 512MiB, 8GB or 1.5G");
  const auto count =
      count_in(kSizeUnits, *quantity, text, "size", "use B, KiB, MiB, GiB, TiB, KB, MB, GB or TB");
  return count.map([](std::int64_t bytes) { return Bytes{bytes}; });
}

Result<Nanoseconds> parse_duration(std::string_view text) {
  auto quantity = split_quantity(text);
  if (!quantity) {
    quantity.error().fix = "write a time such as 500ms, 2s or 1.5min";
    return forward_error(quantity);
  }
  const auto count = count_in(kTimeUnits, *quantity, text, "time", "use ns, us, ms, s, min or h");
  return count.map([](std::int64_t nanoseconds) { return Nanoseconds{nanoseconds}; });
}

namespace {

constexpr std::size_t kSeconds = 19;  // "2026-11-21T10:30:00"

bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }

// The number of exactly `digits` digits at position `at`; nothing if another character is among them.
std::optional<int> number_at(std::string_view text, std::size_t at, std::size_t digits) {
  if (at + digits > text.size()) return std::nullopt;
  const std::string_view number = text.substr(at, digits);
  if (!std::all_of(number.begin(), number.end(), is_decimal_digit)) return std::nullopt;
  return parse_number<int>(number);
}

// ".25" is 250; digits after the milliseconds are ignored.
struct Fraction {
  int milliseconds = 0;
  std::size_t length = 0;
};
Fraction fraction_of(std::string_view text) {
  if (!text.starts_with('.')) return {};
  Fraction fraction;
  int unit = 100;
  for (fraction.length = 1; fraction.length < text.size() && is_decimal_digit(text[fraction.length]);
       ++fraction.length) {
    fraction.milliseconds += unit * (text[fraction.length] - '0');
    unit /= 10;
  }
  return fraction;
}

// The offset east of Greenwich: "Z", "+01:30" or "+0130".
std::optional<std::chrono::minutes> zone_of(std::string_view text) {
  if (text == "Z") return std::chrono::minutes(0);
  const bool has_colon = text.size() == 6 && text[3] == ':';
  if (!has_colon && text.size() != 5) return std::nullopt;
  if (text[0] != '+' && text[0] != '-') return std::nullopt;
  const auto hours = number_at(text, 1, 2), minutes = number_at(text, has_colon ? 4 : 3, 2);
  if (!hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  const std::chrono::minutes away = std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
  return text[0] == '+' ? away : -away;
}

}  // namespace

std::optional<std::int64_t> parse_timestamp(std::string_view text) {
  if (text.size() <= kSeconds || text[4] != '-' || text[7] != '-' || (text[10] != 'T' && text[10] != ' ') ||
      text[13] != ':' || text[16] != ':')
    return std::nullopt;
  const auto year = number_at(text, 0, 4), month = number_at(text, 5, 2), day = number_at(text, 8, 2),
             hour = number_at(text, 11, 2), minute = number_at(text, 14, 2), second = number_at(text, 17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  const Fraction fraction = fraction_of(text.substr(kSeconds));
  const auto zone = zone_of(text.substr(kSeconds + fraction.length));
  if (!zone) return std::nullopt;
  const auto moment = std::chrono::sys_days(date) + std::chrono::hours(*hour) +
                      std::chrono::minutes(*minute) + std::chrono::seconds(*second) +
                      std::chrono::milliseconds(fraction.milliseconds) - *zone;
  return std::chrono::duration_cast<std::chrono::milliseconds>(moment.time_since_epoch()).count();
}

std::string without_fraction(std::string_view timestamp) {
  if (timestamp.size() <= kSeconds) return std::string(timestamp);
  const Fraction fraction = fraction_of(timestamp.substr(kSeconds));
  return std::string(timestamp.substr(0, kSeconds)).append(timestamp.substr(kSeconds + fraction.length));
}

}  // namespace headroom
