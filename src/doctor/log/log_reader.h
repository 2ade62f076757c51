// Text of any size, plain or gzip, in bounded memory: hands out the lines that hold one of some words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/result.h"
#include "doctor/log/anchor_search.h"

namespace headroom::doctor {

// The bytes around the word that are handed out of a longer line.
inline constexpr std::size_t kLongestLogLine = 8 << 10;

// Takes the line's number, from 1, and its text without line end. True: hand out the next line too, whatever
// it holds.
using OnLogLine = std::function<bool(std::int64_t number, std::string_view line)>;

// Reads to the end, and tells how many lines there were. A line without an end for a mebibyte is searched in
// pieces. Errors: unreadable, or a gzip stream that is damaged or cut off; the lines before that were handed
// out.
Result<std::int64_t> read_log(UniqueFd fd, const std::string& name, const AnchorSearch& anchors,
                              const OnLogLine& on_line);

// The same of a file; "-" is standard input.
Result<std::int64_t> read_log_file(const std::string& path, const AnchorSearch& anchors,
                                   const OnLogLine& on_line);

}  // namespace headroom::doctor
