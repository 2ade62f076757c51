// Diagnostics: to stderr for the person, to run.log for the record. Data never goes through here.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace headroom::log {

enum class Level { debug, info, warning, error };

// Which levels reach stderr (run.log always gets all of them).
void set_console_level(Level level);
// Messages for the person go to this file in place of stderr, with its colours; nullptr: to stderr again.
void set_console_file(std::FILE* file);
// Starts run.log; messages before this went to stderr alone. A log that cannot be written is an error here
// and never later: a full disk must not end a measurement.
Status open_file(const std::filesystem::path& path);
void close_file();

void write(Level level, std::string_view message);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace headroom::log
