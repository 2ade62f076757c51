#include "base/timestamp.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/text.h"

namespace headroom {
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

std::string timestamp_now() {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto second = std::chrono::floor<std::chrono::seconds>(now);
  const std::tm local = fmt::localtime(std::chrono::system_clock::to_time_t(second));
  std::string zone = fmt::format("{:%z}", local);
  // %z gives "+0130"; RFC 3339 requires the colon.
  if (zone.size() == 5) zone.insert(3, ":");
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}{}", local, (now - second).count(), zone);
}

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
