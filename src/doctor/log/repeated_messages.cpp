#include "doctor/log/repeated_messages.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::int64_t kNext = 3;  // lines

// Times, as loggers write them; the time of day is the end of each.
constexpr std::string_view kTimes[] = {"aaa 90 00:00:00",     "0000-00-00T00:00:00", "0000-00-00 00:00:00",
                                       "0000/00/00 00:00:00", "00-00 00:00:00",      "00:00:00"};

std::size_t length_of_digits(std::string_view text) {
  return std::min(text.find_first_not_of(kDigits), text.size());
}

// Reads a prefix piece by piece.
class PrefixReader {
 public:
  explicit PrefixReader(std::string_view line) : rest_(line) { prefix_.body = line; }

  // `with_names`: also what may be a logger's name or the begin of a message, "trainer: ".
  void read(bool with_names) {
    while (!rest_.empty() && (skip_separator() || read_time() || read_program() || skip_level() ||
                              skip_brackets() || (with_names && skip_name()))) {
    }
    prefix_.body = rest_;
  }
  const LoggerPrefix& prefix() const { return prefix_; }

 private:
  bool skip(std::size_t length) {
    rest_.remove_prefix(std::min(length, rest_.size()));
    return length > 0;
  }
  bool skip_separator() {
    const std::size_t spaces = std::min(rest_.find_first_not_of(' '), rest_.size());
    if (spaces > 0) return skip(spaces);
    return (rest_.starts_with("- ") || rest_.starts_with("| ") || rest_.starts_with(": ")) && skip(2);
  }

  // "May 12 10:11:12", "[2026-05-12 10:11:12,345]", "2026-05-12T10:11:12.123+02:00"
  bool read_time() {
    const bool in_brackets = rest_.starts_with('[');
    const std::string_view text = rest_.substr(in_brackets ? 1 : 0);
    const auto* const shape = std::find_if(std::begin(kTimes), std::end(kTimes),
                                           [text](std::string_view each) { return has_shape(text, each); });
    if (shape == std::end(kTimes)) return false;
    const std::size_t end = shape->size() + length_of_rest(text.substr(shape->size()));
    prefix_.style.append(*shape).append(in_brackets ? "]" : "");
    for (const char c : text.substr(shape->size(), end - shape->size()))
      if (kDigits.find(c) == kDigits.npos) prefix_.style += c;
    read_seconds(text.substr(shape->size() - kTimes[std::size(kTimes) - 1].size()));
    after_time_ = true;
    const bool is_closed = in_brackets && text.substr(end).starts_with(']');
    return skip((in_brackets ? 1 : 0) + end + (is_closed ? 1 : 0));
  }
  // Of ",345" and ".123456Z", ".123+0200".
  static std::size_t length_of_rest(std::string_view text) {
    std::size_t end = 0;
    if (text.size() > 1 && (text[0] == '.' || text[0] == ',')) end = 1 + length_of_digits(text.substr(1));
    if (text.substr(end).starts_with('Z')) return end + 1;
    for (const std::string_view zone : {"+00:00", "-00:00", "+0000", "-0000"})
      if (has_shape(text.substr(end), zone)) return end + zone.size();
    return end;
  }
  void read_seconds(std::string_view time) {
    constexpr std::int64_t kMinute = 60, kHour = 60 * kMinute;
    constexpr std::size_t kMinutes = 3, kSeconds = 6;
    const auto number = [time](std::size_t at) {
      return parse_number<std::int64_t>(time.substr(at, 2)).value_or(0);
    };
    prefix_.seconds = number(0) * kHour + number(kMinutes) * kMinute + number(kSeconds);
  }

  // "host app[4312]: ", "host kernel: ", behind a time.
  bool read_program() {
    if (!after_time_) return false;
    after_time_ = false;
    const std::size_t space = rest_.find(' '), end = rest_.find(": ");
    if (space == rest_.npos || end == rest_.npos || end < space || space == 0) return false;
    const std::string_view program = rest_.substr(space + 1, end - space - 1);
    const std::size_t open = program.find('[');
    const std::string_view name = program.substr(0, open);
    if (!is_name(name)) return false;
    if (open != program.npos) {
      const std::string_view number = program.substr(open + 1);
      const std::size_t digits = length_of_digits(number);
      if (digits == 0 || number.substr(digits) != "]") return false;
      prefix_.process = number.substr(0, digits);
    }
    return skip(end + 2);
  }

  bool skip_level() {
    constexpr std::string_view kLevels[] = {"TRACE", "DEBUG",    "INFO",  "NOTICE", "WARNING", "WARN",
                                            "ERROR", "CRITICAL", "FATAL", "error",  "warning"};
    for (const std::string_view level : kLevels)
      if (rest_.starts_with(level) && (rest_.size() == level.size() || rest_[level.size()] == ' ' ||
                                       rest_.substr(level.size()).starts_with(": ")))
        return skip(level.size());
    return false;
  }

  // "[ERROR]", "[4312]", "[core.py:396]"; "[rank0]" and "[detector-1]" tell of which of several programs it
  // is.
  bool skip_brackets() {
    const std::size_t end = rest_.find(']');
    if (!rest_.starts_with('[') || end == rest_.npos || end + 1 == rest_.size()) return false;
    const std::string_view text = rest_.substr(1, end - 1), name = text.substr(0, text.find(':'));
    const std::string_view number = name.size() < text.size() ? text.substr(name.size() + 1) : "";
    if (length_of_digits(text) == text.size() && !text.empty()) {
      prefix_.process = text;
      return skip(end + 1);
    }
    if (!is_name(name) || length_of_digits(number) != number.size()) return false;
    return skip(end + 1);
  }

  // "trainer: ", "trainer - ", "app.train:run:12 - ", as far as it is one word.
  bool skip_name() {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    std::string_view word = rest_.substr(0, end);
    const std::string_view behind = rest_.substr(end);
    const bool is_marked = word.ends_with(':') || behind.starts_with(" - ") || behind.starts_with(" | ");
    if (word.ends_with(':')) word.remove_suffix(1);
    return is_marked && is_name(word) && skip(end);
  }

  // Of a program, a logger or a file; no error's, and none with the number of one of several.
  static bool is_name(std::string_view text) {
    return !text.empty() && !has(text, "rror") && !has(text, "xception") &&
           std::all_of(text.begin(), text.end(), [](char c) {
             return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' ||
                    c == '/';
           });
  }

  std::string_view rest_;
  LoggerPrefix prefix_;
  bool after_time_ = false;
};

// Clocks of two zones are whole quarters of an hour apart.
bool is_same_second(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kQuarter = 15 * 60;
  const std::int64_t difference = std::abs(a - b) % kQuarter;
  return difference <= 1 || difference == kQuarter - 1;
}

bool is_name_of_logger(std::string_view text) {
  PrefixReader reader(text);
  reader.read(true);
  return reader.prefix().body.empty();
}

// Whole, or behind the name of a logger.
bool is_same_body(std::string_view a, std::string_view b) {
  if (a.size() < b.size()) std::swap(a, b);
  return !b.empty() && a.ends_with(b) && is_name_of_logger(a.substr(0, a.size() - b.size()));
}

}  // namespace

LoggerPrefix logger_prefix_of(std::string_view line) {
  PrefixReader reader(line);
  reader.read(false);
  return reader.prefix();
}

// The style first: in a log that is full of messages it is the same, and nothing else is to be read.
bool RepeatedMessages::is_same(const Told& told, std::string_view line, const LoggerPrefix& prefix) {
  if (std::find(told.styles.begin(), told.styles.end(), prefix.style) != told.styles.end()) return false;
  if (line.empty() || told.line.empty() || told.line.back() != line.back()) return false;
  const LoggerPrefix other = logger_prefix_of(told.line);
  const bool are_two = !prefix.process.empty() && !other.process.empty() && prefix.process != other.process;
  return !are_two && is_same_second(other.seconds, prefix.seconds) && is_same_body(other.body, prefix.body);
}

bool RepeatedMessages::is_told_again(const LogPlace& at, std::string_view line) {
  line = trim(line);
  std::erase_if(told_,
                [&](const Told& each) { return each.at.file != at.file || at.line - each.at.line > kNext; });
  const LoggerPrefix prefix = logger_prefix_of(line);
  if (prefix.style.empty()) return false;
  for (Told& told : told_)
    if (is_same(told, line, prefix)) {
      told.styles.push_back(prefix.style);
      return true;
    }
  // One record may have many lines of one number.
  if (told_.size() > static_cast<std::size_t>(kNext)) told_.erase(told_.begin());
  told_.push_back({at, std::string(line), {prefix.style}});
  return false;
}

void RepeatedMessages::forget(const LogPlace& at) {
  std::erase_if(told_, [&](const Told& each) { return each.at.file == at.file && each.at.line == at.line; });
}

}  // namespace headroom::doctor
