#include "base/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/files.h"

namespace headroom {

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

bool use_color(ColorMode mode, int fd) {
  if (mode != ColorMode::automatic) return mode == ColorMode::always;
  const auto is_set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  if (is_set("NO_COLOR")) return false;
  if (is_set("FORCE_COLOR")) return true;
  const char* term = std::getenv("TERM");
  if (term != nullptr && std::string_view(term) == "dumb") return false;
  return is_terminal(fd);
}

int terminal_width(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

ProgressLine::ProgressLine() : enabled_(is_terminal(STDERR_FILENO)) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::update(std::string_view label, double fraction, std::string_view detail) {
  if (!enabled_) return;
  const Nanoseconds now = monotonic_now();
  if (drawn_ && now - last_draw_ < Nanoseconds{100'000'000}) return;
  last_draw_ = now;
  drawn_ = true;
  std::string bar;
  if (fraction >= 0) {
    constexpr int kCells = 24;
    const int full = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * kCells);
    for (int i = 0; i < kCells; ++i) bar += i < full ? "█" : "░";
    bar = fmt::format(" {} {:3.0f}%", bar, 100 * std::clamp(fraction, 0.0, 1.0));
  }
  [[maybe_unused]] auto ignored =
      write_all(STDERR_FILENO, fmt::format("\r\033[K{}{}  {}", label, bar, detail));
}

void ProgressLine::clear() {
  if (!drawn_) return;
  [[maybe_unused]] auto ignored = write_all(STDERR_FILENO, "\r\033[K");
  drawn_ = false;
}

}  // namespace headroom
