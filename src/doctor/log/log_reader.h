// Reads text of any size, plain or gzip, in bounded memory, and passes on the lines that contain an anchor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/result.h"
#include "doctor/log/anchor_search.h"

namespace headroom::doctor {

// Of longer lines, parts of this size with an anchor are passed on.
inline constexpr std::size_t kLongestLogLine = 8 << 10;

// Receives the line's number, from 1, and its text without line end. Returns true if it needs the next line,
// too.
using OnLogLine = std::function<bool(std::int64_t number, std::string_view line)>;

// Reads to the end and returns the number of lines. A line of more than a mebibyte is searched in pieces.
// Errors: the file is unreadable, or its gzip stream is damaged or truncated; earlier lines have been passed
// on.
Result<std::int64_t> read_log(UniqueFd fd, const std::string& name, const AnchorSearch& anchors,
                              const OnLogLine& on_line);

// Reads a file; "-" is standard input.
Result<std::int64_t> read_log_file(const std::string& path, const AnchorSearch& anchors,
                                   const OnLogLine& on_line);

}  // namespace headroom::doctor
