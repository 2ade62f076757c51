// Diagnostics: printed to stderr for the user and recorded in run.log. Data (results) never goes through
// here.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace headroom::log {

enum class Level { debug = 1, info, warning, error };  // the numbers of spdlog

// Which levels reach stderr (run.log always gets all of them).
void set_console_level(Level level);
// Prints messages to this file instead of stderr, in colour if stderr is in colour. nullptr restores stderr.
void set_console_file(std::FILE* file);
// Starts run.log; earlier messages went to stderr only. If the log cannot be opened, that is an error here.
// Later write errors are ignored, because a full disk must not end a measurement.
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
