// One event in the lines of two loggers, such as the journal and the program's own: the same text behind
// different prefixes, on adjacent lines. It counts once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/log/log_place.h"

namespace headroom::doctor {

class RepeatedMessages {
 public:
  // Whether another logger wrote the message on one of the three lines before, within a second. Messages with
  // the same style of prefix, or without a time, are real repetitions.
  bool is_told_again(const LogPlace& at, std::string_view line);
  void forget(const LogPlace& at);

 private:
  struct Told {
    LogPlace at;
    std::string line;
    std::vector<std::string> styles;  // of its repetitions
  };
  static bool is_repetition(Told& told, std::string_view line);

  std::vector<Told> told_;
};

}  // namespace headroom::doctor
