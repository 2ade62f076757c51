#include "doctor/log/log_place.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/text.h"

namespace headroom::doctor {
namespace {

// The kernel, systemd, a launch file and a shell report one kill within seconds. A restart takes longer.
constexpr std::int64_t kApart = 60;  // seconds

constexpr std::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

std::optional<int> number_in(std::string_view text, std::size_t at, std::size_t digits) {
  if (at + digits > text.size()) return std::nullopt;
  return parse_number<int>(trim(text.substr(at, digits)));
}

// "10:30:00"
std::optional<std::int64_t> time_of_day(std::string_view text) {
  const auto hour = number_in(text, 0, 2), minute = number_in(text, 3, 2), second = number_in(text, 6, 2);
  if (!hour || !minute || !second || text[2] != ':' || text[5] != ':') return std::nullopt;
  constexpr std::int64_t kMinute = 60, kHour = 60 * kMinute;
  return *hour * kHour + *minute * kMinute + *second;
}

std::optional<LogTime> time_at(LogTime::Clock clock, int year, int month, int day, std::string_view rest) {
  const auto seconds = time_of_day(rest);
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(std::max(month, 0))),
                                         std::chrono::day(static_cast<unsigned>(std::max(day, 0)))};
  if (!seconds || !date.ok()) return std::nullopt;
  const std::chrono::seconds days = std::chrono::sys_days(date).time_since_epoch();
  return LogTime{clock, days.count() + *seconds};
}

// "2026-11-21T10:30:00"
std::optional<LogTime> time_of_date(std::string_view text) {
  constexpr std::size_t kTime = 11;
  if (text.size() < kTime || text[4] != '-' || text[7] != '-' || (text[10] != 'T' && text[10] != ' '))
    return std::nullopt;
  const auto year = number_in(text, 0, 4), month = number_in(text, 5, 2), day = number_in(text, 8, 2);
  if (!year || !month || !day) return std::nullopt;
  return time_at(LogTime::Clock::date, *year, *month, *day, text.substr(kTime));
}

// "Mar 02 10:00:00", "Mar  2 10:00:00". Any year with a 29th of February serves.
std::optional<LogTime> time_of_syslog(std::string_view text) {
  constexpr int kLeapYear = 2024;
  constexpr std::size_t kDay = 4, kTime = 7;
  const auto* const month = std::find(std::begin(kMonths), std::end(kMonths), text.substr(0, 3));
  const auto day = number_in(text, kDay, 2);
  if (month == std::end(kMonths) || !day || text.size() < kTime) return std::nullopt;
  const int number = static_cast<int>(month - std::begin(kMonths)) + 1;
  return time_at(LogTime::Clock::day_of_year, kLeapYear, number, *day, text.substr(kTime));
}

// "[  510.812345] ", "[Mon Mar  2 10:00:00 2026] "
std::optional<LogTime> time_in_brackets(std::string_view text) {
  constexpr std::size_t kWeekday = 4;
  text.remove_prefix(1);
  if (auto time = time_of_syslog(text.substr(std::min(kWeekday, text.size())))) return time;
  const std::size_t dot = text.find('.');
  if (dot == text.npos || text.find(']') < dot) return std::nullopt;
  const auto seconds = parse_number<std::int64_t>(trim(text.substr(0, dot)));
  if (!seconds) return std::nullopt;
  return LogTime{LogTime::Clock::boot, *seconds};
}

}  // namespace

std::optional<LogTime> time_of(std::string_view line) {
  if (line.starts_with('[')) return time_in_brackets(line);
  if (auto time = time_of_date(line)) return time;
  return time_of_syslog(line);
}

bool are_apart(const std::optional<LogTime>& a, const std::optional<LogTime>& b) {
  return a && b && a->clock == b->clock && std::abs(a->seconds - b->seconds) > kApart;
}

}  // namespace headroom::doctor
