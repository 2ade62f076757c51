#include "base/terminal.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "base/files.h"
#include "base/utf8.h"

namespace headroom {
namespace {

// The first errno value of print_output(), or 0. One thread prints; another thread may read the status.
std::atomic<int> output_error = 0;

constexpr char kEscape = '\033', kBell = '\a';

// The index after the escape sequence that begins at `start`. An incomplete sequence ends with the text. The
// forms are CSI (ESC [ … letter), OSC (ESC ] … BEL, or ESC ] … ESC \ at the end), and the short form: ESC,
// intermediate characters and a final character.
std::size_t end_of_escape(std::string_view text, std::size_t start) {
  const auto is_between = [&](std::size_t i, char first, char last) {
    return i < text.size() && text[i] >= first && text[i] <= last;
  };
  std::size_t i = start + 1;
  if (i < text.size() && text[i] == ']') {
    while (i < text.size() && text[i] != kBell && text[i] != kEscape) ++i;
    if (i < text.size() && text[i] == kEscape) ++i;  // ESC \ has a second character
    return std::min(i + 1, text.size());
  }
  if (i < text.size() && text[i] == '[') {
    ++i;
    while (is_between(i, ' ', '?')) ++i;  // parameters and intermediate characters
    return is_between(i, '@', '~') ? i + 1 : i;
  }
  while (is_between(i, ' ', '/')) ++i;
  return is_between(i, '0', '~') ? i + 1 : i;
}

}  // namespace

void print_output(std::string_view text) {
  while (output_error == 0 && !text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0)
      text.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      output_error = errno;
  }
}

bool output_is_open() { return output_error == 0; }

Status output_status() {
  if (output_error == 0 || output_error == EPIPE) return {};
  return internal_error("cannot write to standard output", errno_text(output_error),
                        "check where it is redirected to");
}

std::string without_terminal_control(std::string_view text) {
  // Most texts contain no control character. Without a branch the compiler can vectorize this loop.
  bool has_control = false;
  for (const char byte : text) {
    const auto c = static_cast<unsigned char>(byte);
    // 0xC2 is the first byte of U+0080 to U+009F: some terminals treat these as escapes (U+009B begins a
    // sequence).
    has_control |= c < 0x20 || c == 0x7F || c == 0xC2;
  }
  if (!has_control) return with_valid_utf8(std::string(text));
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == kEscape) {
      i = end_of_escape(text, i);
      continue;
    }
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == 0xC2 && i + 1 < text.size()) {
      const auto second = static_cast<unsigned char>(text[i + 1]);
      if (second >= 0x80 && second < 0xA0) {
        i += 2;
        continue;
      }
    }
    if ((c >= 0x20 && c != 0x7F) || c == '\t' || c == '\n') plain += text[i];
    ++i;
  }
  return with_valid_utf8(std::move(plain));
}

namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool wants_colors(ColorMode mode, bool is_terminal) {
  if (mode != ColorMode::automatic) return mode == ColorMode::always;
  if (!variable("NO_COLOR").empty()) return false;
  return !variable("FORCE_COLOR").empty() || (is_terminal && variable("TERM") != "dumb");
}

// Data for the handler of deadly signals: plain memory that is written before the handler is installed.
termios settings_before{};
std::array<char, 256> restoring_text{};
std::size_t restoring_size = 0;
constexpr std::array kDeadly{SIGQUIT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS};
std::array<struct sigaction, kDeadly.size()> actions_before{};

// Raises the signal again for the previous handler (a sanitizer, or the default action).
void on_deadly_signal(int number) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDOUT_FILENO, restoring_text.data(), restoring_size);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &settings_before);
  for (std::size_t i = 0; i < kDeadly.size(); ++i)
    if (kDeadly[i] == number) ::sigaction(number, &actions_before[i], nullptr);
  ::raise(number);
}

}  // namespace

Screen::Screen(int fd, ColorMode mode) : is_terminal(::isatty(fd) == 1) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    width = size.ws_col;
    height = size.ws_row;
  }
  if (!wants_colors(mode, is_terminal)) return;
  const bool has_256 =
      variable("TERM").find("256color") != std::string_view::npos || !variable("COLORTERM").empty();
  colors = has_256 ? ColorDepth::colors_256 : ColorDepth::colors_16;
}

std::string painted(std::string_view text, std::string_view paint, bool color) {
  return color ? fmt::format("{}{}{}", paint, text, kNoPaint) : std::string(text);
}

RestoreAtDeath::RestoreAtDeath(std::string_view escapes) {
  ::tcgetattr(STDIN_FILENO, &settings_before);
  restoring_size = escapes.copy(restoring_text.data(), restoring_text.size());
  struct sigaction action {};
  action.sa_handler = on_deadly_signal;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kDeadly.size(); ++i) ::sigaction(kDeadly[i], &action, &actions_before[i]);
}

RestoreAtDeath::~RestoreAtDeath() {
  for (std::size_t i = 0; i < kDeadly.size(); ++i) ::sigaction(kDeadly[i], &actions_before[i], nullptr);
}

namespace {
ProgressLine* drawn_line = nullptr;  // the line on screen; there is only one terminal
}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::update(std::string_view label, double fraction, std::string_view detail) {
  const Screen screen(STDERR_FILENO);
  if (!screen.is_terminal) return;
  const Nanoseconds now = monotonic_now();
  if (drawn_ && now - last_draw_ < Nanoseconds{100'000'000}) return;
  last_draw_ = now;
  drawn_ = true;
  drawn_line = this;
  std::string bar;
  if (fraction >= 0) {
    constexpr int kCells = 24;
    const int full = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * kCells);
    for (int i = 0; i < kCells; ++i) bar += i < full ? "█" : "░";
    bar = fmt::format(" {} {:3.0f}%", bar, 100 * std::clamp(fraction, 0.0, 1.0));
  }
  // A line as wide as the terminal would wrap, and then clearing would miss its first row.
  const std::string shown = fit_to_width(fmt::format("{}{}  {}", label, bar, detail), screen.width - 1);
  [[maybe_unused]] auto ignored = write_all(STDERR_FILENO, fmt::format("\r\033[K{}", shown));
}

void ProgressLine::clear() {
  if (drawn_line == this) drawn_line = nullptr;
  if (!drawn_) return;
  [[maybe_unused]] auto ignored = write_all(STDERR_FILENO, "\r\033[K");
  drawn_ = false;
}

void ProgressLine::clear_drawn() {
  if (drawn_line != nullptr) drawn_line->clear();
}

}  // namespace headroom
