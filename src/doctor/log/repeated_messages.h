// One event that two loggers tell, the journal and the program's own: the same words in lines that stand next
// to each other, behind prefixes that differ. It counts once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/log/log_place.h"

namespace headroom::doctor {

// What loggers put before a message: "May 12 10:11:12 host app[4312]: ", "2026-05-12 10:11:12,345 - app -
// ERROR - ".
struct LoggerPrefix {
  std::string style;         // how it writes times, which tells loggers apart; empty: it has no time
  std::int64_t seconds = 0;  // of the day
  std::string_view process;  // its number, where it is told
  std::string_view body;     // the rest; the name of a logger may still stand before it
};
LoggerPrefix logger_prefix_of(std::string_view line);

class RepeatedMessages {
 public:
  // Whether another logger told it in one of the three lines before, within a second. What has the same
  // prefix, or none, are real repetitions.
  bool is_told_again(const LogPlace& at, std::string_view line);
  void forget(const LogPlace& at);

 private:
  struct Told {
    LogPlace at;
    std::string line;
    std::vector<std::string> styles;  // of all who told it
  };
  static bool is_same(const Told& told, std::string_view line, const LoggerPrefix& prefix);

  std::vector<Told> told_;
};

}  // namespace headroom::doctor
