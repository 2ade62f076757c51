#include "doctor/log/repeated_messages.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>

#include "base/text.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kDigitsOfTime = "0123456789:-./,TZ+[]", kEndOfDay = "00:00:00";

bool has_digit(std::string_view word) { return word.find_first_of("0123456789") != word.npos; }

// "10:11:12,345", "2025-05-12", "[2025-05-12T10:11:12Z]".
bool is_time(std::string_view word) {
  return has_digit(word) && word.find_first_of(":-/", 1) < word.size() - 1 &&
         word.find_first_not_of(kDigitsOfTime) == word.npos;
}

// Text that a logger puts before a message: "May 12 10:11:12 host app[4312]:", "2026-05-12 10:11:12,345 - app
// - ERROR -".
struct LoggerPrefix {
  std::string style;                    // its times, with 0 for each digit
  std::optional<std::int64_t> seconds;  // of the day
  std::string_view process;             // the number, if it has one
};

std::int64_t seconds_at(std::string_view time) {
  const auto number = [time](std::size_t at) {
    return parse_number<std::int64_t>(time.substr(at, 2)).value_or(0);
  };
  return number(0) * 3600 + number(3) * 60 + number(6);
}

void add_time(std::string_view word, LoggerPrefix& prefix) {
  for (std::size_t at = 0; at < word.size(); ++at) {
    if (!prefix.seconds && has_shape(word.substr(at), kEndOfDay))
      prefix.seconds = seconds_at(word.substr(at));
    prefix.style += has_digit(word.substr(at, 1)) ? '0' : word[at];
  }
  prefix.style += ' ';
}

// "[4312]" and "app[4312]:" have a process number, "[core.py:396]" and "train:12" a line of a source. Any
// other word with a digit may name one of several programs: "rank0", "worker 3:".
bool read_prefix_number(std::string_view word, LoggerPrefix& prefix) {
  while (word.ends_with(':') || word.ends_with(']')) word.remove_suffix(1);
  const std::size_t digits = word.find_last_not_of("0123456789") + 1;
  if (digits == 0 || digits == word.size() || has_digit(word.substr(0, digits))) return false;
  if (word[digits - 1] == '[') prefix.process = word.substr(digits);
  return word[digits - 1] == '[' || word[digits - 1] == ':';
}

bool may_end_prefix(std::string_view word) {
  constexpr std::string_view kLevels[] = {"DEBUG", "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "FATAL"};
  return is_time(word) || std::string_view(":]-|").find(word.back()) != std::string_view::npos ||
         std::find(std::begin(kLevels), std::end(kLevels), word) != std::end(kLevels);
}

// Nothing for text that may be part of a message.
std::optional<LoggerPrefix> logger_prefix(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  const auto words = split_words(text.substr(0, kLongest));
  if (text.size() > kLongest || words.empty() || !may_end_prefix(words.back())) return std::nullopt;
  LoggerPrefix prefix;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const bool is_day = i + 1 < words.size() && is_time(words[i + 1]);
    const bool is_host =
        i > 0 && is_time(words[i - 1]) && i + 1 < words.size() && words[i + 1].ends_with(':');
    if (is_time(word))
      add_time(word, prefix);
    else if ((has_digit(word) && !is_day && !is_host && !read_prefix_number(word, prefix)) ||
             has(word, "rror") || has(word, "xception"))
      return std::nullopt;
  }
  return prefix.seconds ? std::optional(prefix) : std::nullopt;
}

// Clocks of two time zones differ by whole quarters of an hour.
bool is_same_second(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kQuarter = 15 * 60;
  const std::int64_t difference = std::abs(a - b) % kQuarter;
  return difference <= 1 || difference == kQuarter - 1;
}

// The length of the text that both lines end with, from the begin of a word.
std::size_t common_end(std::string_view a, std::string_view b) {
  std::size_t length = 0;
  while (length < a.size() && length < b.size() && a[a.size() - 1 - length] == b[b.size() - 1 - length])
    ++length;
  const std::string_view end = a.substr(a.size() - length);
  const std::size_t space = end.find(' ');
  return space == end.npos ? 0 : end.size() - space - 1;
}

}  // namespace

bool RepeatedMessages::is_repetition(Told& told, std::string_view line) {
  const std::size_t length = common_end(told.line, line);
  if (length == 0) return false;
  const auto first = logger_prefix(std::string_view(told.line).substr(0, told.line.size() - length)),
             second = logger_prefix(line.substr(0, line.size() - length));
  if (!first || !second || first->style == second->style ||
      !is_same_second(*first->seconds, *second->seconds))
    return false;
  if (!first->process.empty() && !second->process.empty() && first->process != second->process) return false;
  if (std::find(told.styles.begin(), told.styles.end(), second->style) != told.styles.end()) return false;
  told.styles.push_back(second->style);
  return true;
}

bool RepeatedMessages::is_told_again(const LogPlace& at, std::string_view line) {
  constexpr std::int64_t kNext = 3;  // lines
  line = trim(line);
  std::erase_if(told_,
                [&](const Told& each) { return each.at.file != at.file || at.line - each.at.line > kNext; });
  if (std::any_of(told_.begin(), told_.end(), [line](Told& told) { return is_repetition(told, line); }))
    return true;
  // The lines of one record have the same number.
  if (told_.size() > static_cast<std::size_t>(kNext)) told_.erase(told_.begin());
  told_.push_back({at, std::string(line), {}});
  return false;
}

void RepeatedMessages::forget(const LogPlace& at) {
  std::erase_if(told_, [&](const Told& each) { return each.at.file == at.file && each.at.line == at.line; });
}

}  // namespace headroom::doctor
