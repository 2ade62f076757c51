// Where a line stands in a log, and when it was written: what is told of one event lies near.
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

// Seconds of one of three clocks: a date's, a date's without its year, and that since the machine's start.
// Those of two clocks are not compared.
struct LogTime {
  enum class Clock { date, day_of_year, boot };
  Clock clock = Clock::date;
  std::int64_t seconds = 0;
};

// What a line begins with, as far as it is one: "Mar 02 10:00:00", "2026-11-21T10:30:00", "2026-11-21
// 10:30:00", "[Mon Mar  2 10:00:00 2026]", "[  510.812345]".
std::optional<LogTime> time_of(std::string_view line);

// Whether both are known, of one clock, and further apart than what is told of one kill.
bool are_apart(const std::optional<LogTime>& a, const std::optional<LogTime>& b);

}  // namespace headroom::doctor
