// Reads samples and their times from text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/text_decoder.h"
#include "sources/text_samples.h"
#include "watch/watch_options.h"

namespace headroom::watch {

inline constexpr const char* kOwnLog = "headroom";  // the kind of FILE.jsonl in --from

// The condition of a compressed Headroom log, for callers that report it themselves. Otherwise damage is
// logged as a warning.
struct LogCondition {
  bool is_damaged = false;  // the data after the last sample cannot be unpacked
  bool is_cut = false;      // its end is missing: the watch was killed, or the copy is incomplete
};

// Reads the text to its end, or until `should_stop()`. A readable `wake_fd` interrupts the wait for text.
//
// A sample's time depends on the input:
//   - started tool: the time when the sample arrives
//   - Headroom log: the time in the log
//   - other text: the time in its line (to the second, in either date order); without one, `interval` after
//     the previous sample
//
// Samples later than `duration` after the first are dropped. A pipe or tool is read no longer than
// `duration`. If `condition` is given, damage of a log goes there instead of into a warning. Returns why text
// could not be parsed, if known. Fails also if the started tool ends with an error.
Result<sources::ParseProblem> read_text_input(const TextInput& input, Nanoseconds interval,
                                              const sources::OnSample& on_sample,
                                              const std::function<bool()>& should_stop, int wake_fd,
                                              std::optional<Nanoseconds> duration = {},
                                              LogCondition* condition = nullptr);

// The file, or the started tool, for messages.
std::string name_of(const TextInput& input);

// Seconds of the day in "04-11-2025 10:36:27" or "2026/08/10 00:00:00.000".
std::optional<double> second_of_day(std::string_view clock_text);

// Reads lines of a file or pipe of any size in bounded memory: one buffer of four times the longest line.
// Longer lines are split into pieces of that length. UTF-16 is read as UTF-8 (TextDecoder).
class LinePump {
 public:
  static constexpr std::size_t kLongestLine = 64 << 10;

  explicit LinePump(int fd, std::size_t longest = kLongestLine)
      : fd_(fd), longest_(longest), buffer_(4 * longest) {}
  // Reads once, as much as is available, and calls `each` for every complete line. At the end of the file
  // it also passes a last line without a newline, and returns false. The descriptor may be non-blocking.
  Result<bool> read_some(const std::function<void(std::string_view line)>& each);

 private:
  int fd_;
  std::size_t longest_;
  TextDecoder decoder_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // range of the data that was read but not passed on
};

}  // namespace headroom::watch
