// Where a line stands in a log, and when it was written. Lines about one event are close to each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headroom::doctor {

struct LogPlace {
  std::string file;
  std::int64_t line = 0;
};

// Seconds on one of three clocks: a date, a date without a year, or the time since boot. Times of different
// clocks are not compared.
struct LogTime {
  enum class Clock { date, day_of_year, boot };
  Clock clock = Clock::date;
  std::int64_t seconds = 0;
};

// The time at the begin of a line: "Mar 02 10:00:00", "2026-11-21T10:30:00", "2026-11-21 10:30:00", "[Mon Mar
// 2 10:00:00 2026]", "[  510.812345]".
std::optional<LogTime> time_of(std::string_view line);

// True if both times are known, on one clock, and further apart than lines about one kill.
bool are_apart(const std::optional<LogTime>& a, const std::optional<LogTime>& b);

}  // namespace headroom::doctor
