// Reads samples and their times from text.
#pragma once

#include <optional>

#include "base/result.h"
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
// `duration`. If `condition` is given, damage of a log goes there instead of into a warning.
//
// Returns why text could not be parsed, if known. Fails if the file cannot be opened or read, or if the
// started tool ends with an error.
Result<sources::ParseProblem> read_text_input(const TextInput& input, Nanoseconds interval,
                                              const sources::OnSample& on_sample,
                                              const std::function<bool()>& should_stop, int wake_fd,
                                              std::optional<Nanoseconds> duration = {},
                                              LogCondition* condition = nullptr);

// The file, or the started tool, for messages.
std::string name_of(const TextInput& input);

// Seconds of the day in "04-11-2025 10:36:27" or "2026/08/10 00:00:00.000".
std::optional<double> second_of_day(std::string_view clock_text);

}  // namespace headroom::watch
