#include "base/log.h"

#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>

#include "base/terminal.h"

namespace headroom::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) { return static_cast<spdlog::level::level_enum>(level); }

constexpr const char* kConsolePattern = "%^%l:%$ %v";

struct Sinks {
  std::shared_ptr<spdlog::sinks::sink> console = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  std::shared_ptr<spdlog::logger> logger = std::make_shared<spdlog::logger>("headroom", console);
  Sinks() {
    console->set_pattern(kConsolePattern);
    console->set_level(spdlog::level::info);
    logger->set_level(spdlog::level::debug);
    logger->flush_on(spdlog::level::info);
    // A full disk must not end a measurement, and spdlog's warning must not repeat on every line.
    logger->set_error_handler([](const std::string&) {});
  }
};

Sinks& sinks() {
  static Sinks instance;
  return instance;
}

}  // namespace

void set_console_level(Level level) { sinks().console->set_level(to_spdlog(level)); }

void set_console_file(std::FILE* file) {
  using FileSink = spdlog::sinks::ansicolor_sink<spdlog::details::console_mutex>;
  const auto mode = Screen(STDERR_FILENO).in_color() ? spdlog::color_mode::always : spdlog::color_mode::never;
  std::shared_ptr<spdlog::sinks::sink> console = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  if (file != nullptr) console = std::make_shared<FileSink>(file, mode);
  console->set_pattern(kConsolePattern);
  console->set_level(sinks().console->level());
  sinks().logger->sinks().front() = console;
  sinks().console = std::move(console);
}

Status open_file(const std::filesystem::path& path) {
  try {
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string(), false);
    file->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    sinks().logger->sinks().push_back(std::move(file));
    return {};
  } catch (const spdlog::spdlog_ex& problem) {
    return failure(fmt::format("cannot write the log {}", path.string()), problem.what());
  }
}

void close_file() {
  sinks().logger->flush();
  if (sinks().logger->sinks().size() > 1) sinks().logger->sinks().pop_back();
}

void write(Level level, std::string_view message) {
  // Runtimes print colours, and file names may contain any byte.
  if (to_spdlog(level) >= sinks().console->level()) ProgressLine::clear_drawn();
  sinks().logger->log(to_spdlog(level), "{}", without_terminal_control(message));
}

}  // namespace headroom::log
