// Samples of a text, with their times.
#pragma once

#include <optional>

#include "base/result.h"
#include "sources/text_samples.h"
#include "watch/watch_options.h"

namespace headroom::watch {

inline constexpr const char* kOwnLog = "headroom";  // the kind of FILE.jsonl

// What a packed log of Headroom's own turned out to be, for those who tell it themselves; else damage is a
// warning.
struct LogCondition {
  bool is_damaged = false;  // what follows its last sample cannot be unpacked
  bool is_cut = false;      // its end is missing: the watch was killed, or the copy is a part
};

// Reads the text to its end, or until `should_stop()`. The time of a sample is what its line says (to the
// second, without the date's order mattering), else `interval` after the sample before. Samples later than
// `duration` after the first are left out, and a pipe or tool is read for no longer than that. Gives why
// something was not understood, if it was and that is known. Errors: the file cannot be opened or read, the
// tool that was started for it ended with an error.
Result<sources::Unread> read_text_input(const TextInput& input, Nanoseconds interval,
                                        const sources::OnSample& on_sample,
                                        const std::function<bool()>& should_stop, int wake_fd,
                                        std::optional<Nanoseconds> duration = {},
                                        LogCondition* condition = nullptr);

// For messages: the file, or the tool that is started.
std::string name_of(const TextInput& input);

// Seconds of the day in "04-11-2025 10:36:27" or "2026/08/10 00:00:00.000".
std::optional<double> second_of_day(std::string_view clock_text);

}  // namespace headroom::watch
