#include "tui/terminal_screen.h"

#include <fcntl.h>
#include <langinfo.h>
#include <ncurses.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <term.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <string>
#include <string_view>

// term.h defines these as macros.
#undef columns
#undef lines

namespace headroom::tui {
namespace {

// The escape sequences that end a full-screen program on this terminal.
std::string escapes_at_the_end() {
  std::string text;
  for (const char* name : {"sgr0", "cnorm", "rmkx", "rmcup"}) {
    const char* const escape = ::tigetstr(name);
    if (escape != nullptr && escape != reinterpret_cast<const char*>(-1)) text += escape;
  }
  return text;
}

std::optional<Key> special_key(wint_t code) {
  static constexpr std::pair<wint_t, KeyKind> kKeys[]{
      {KEY_UP, KeyKind::up},           {KEY_DOWN, KeyKind::down},
      {KEY_LEFT, KeyKind::left},       {KEY_RIGHT, KeyKind::right},
      {KEY_PPAGE, KeyKind::page_up},   {KEY_NPAGE, KeyKind::page_down},
      {KEY_HOME, KeyKind::home},       {KEY_END, KeyKind::end},
      {KEY_ENTER, KeyKind::enter},     {KEY_BACKSPACE, KeyKind::backspace},
      {KEY_F(1), KeyKind::function_1}, {KEY_F(6), KeyKind::function_6},
      {KEY_F(9), KeyKind::function_9}};
  for (const auto& [known, kind] : kKeys)
    if (known == code) return Key{kind};
  return std::nullopt;
}

// Use UTF-8 for bars also in the locales C and POSIX: most of these are shells over ssh, whose terminal
// supports UTF-8.
void set_locale() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(::nl_langinfo(CODESET)) == "ANSI_X3.4-1968") std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

TerminalScreen::TerminalScreen(void* screen, UniqueFd resizes, std::unique_ptr<RestoreAtDeath> restore,
                               ColorDepth depth)
    : screen_(screen), resizes_(std::move(resizes)), restore_(std::move(restore)) {
  hold_errors();
  ::cbreak();
  ::noecho();
  ::keypad(stdscr, TRUE);
  ::nodelay(stdscr, TRUE);
  ::set_escdelay(50);
  ::curs_set(0);
  ::leaveok(stdscr, TRUE);
  has_colors_ = depth != ColorDepth::none && ::has_colors();
  if (!has_colors_) return;
  ::start_color();
  ::use_default_colors();
  for (int ink = 0; ink < kInks; ++ink) {
    const int wanted = color_of(static_cast<Ink>(ink), depth == ColorDepth::colors_256 && COLORS >= 256);
    ::init_pair(static_cast<short>(ink + 1), static_cast<short>(wanted < COLORS ? wanted : -1), -1);
  }
}

TerminalScreen::~TerminalScreen() {
  restore_.reset();
  ::endwin();
  ::delscreen(static_cast<SCREEN*>(screen_));
  if (!held_errors_ || !own_errors_) return;
  ::dup2(own_errors_.get(), STDERR_FILENO);
  std::array<char, 4096> piece{};
  off_t at = 0;
  for (ssize_t got = 0; (got = ::pread(held_errors_.get(), piece.data(), piece.size(), at)) > 0; at += got)
    [[maybe_unused]] const auto written =
        write_all(STDERR_FILENO, {piece.data(), static_cast<std::size_t>(got)});
}

// Collects standard error while the screen is shown; the destructor prints it. Otherwise messages of
// libraries, child processes and the log would damage the screen.
void TerminalScreen::hold_errors() {
  if (!Screen(STDERR_FILENO).is_terminal) return;
  held_errors_.reset(::memfd_create("standard error", MFD_CLOEXEC));
  own_errors_.reset(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  if (held_errors_ && own_errors_) ::dup2(held_errors_.get(), STDERR_FILENO);
}

int TerminalScreen::width() const { return getmaxx(stdscr); }

int TerminalScreen::height() const { return getmaxy(stdscr); }

void TerminalScreen::resize() {
  signalfd_siginfo info{};
  while (::read(resizes_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
  }
  const Screen now;
  ::resizeterm(now.height, now.width);
  ::clearok(stdscr, TRUE);  // the terminal may have moved its content
}

void TerminalScreen::show(const Canvas& canvas) {
  ::erase();
  for (int row = 0; row < std::min(canvas.height(), height()); ++row) {
    for (int column = 0; column < std::min(canvas.width(), width()); ++column) {
      const Cell& cell = canvas.at(column, row);
      const bool is_plain = cell.glyph == " " && cell.style == Style{};
      if (is_plain || cell.glyph.empty()) continue;
      attr_t attributes = cell.style.bold ? A_BOLD : A_NORMAL;
      if (cell.style.reversed) attributes |= A_REVERSE;
      const int ink = static_cast<int>(cell.style.ink);
      if (has_colors_) attributes |= COLOR_PAIR(ink + 1);
      ::attrset(static_cast<int>(attributes));
      mvaddstr(row, column, cell.glyph.c_str());
    }
  }
  ::refresh();
}

std::optional<Key> TerminalScreen::next_key() {
  for (;;) {
    wint_t code = 0;
    const int kind = ::get_wch(&code);
    if (kind == ERR) return std::nullopt;
    if (kind == KEY_CODE_YES) {
      if (const auto key = special_key(code)) return key;
      continue;
    }
    if (code == '\r' || code == '\n') return Key{KeyKind::enter};
    if (code == 27) return Key{KeyKind::escape};
    if (code == 8 || code == 127) return Key{KeyKind::backspace};
    return Key{KeyKind::character, static_cast<std::uint32_t>(code)};
  }
}

bool wants_ascii() {
  set_locale();
  const char* const term = std::getenv("TERM");
  return std::string_view(::nl_langinfo(CODESET)) != "UTF-8" ||
         (term != nullptr && std::string_view(term) == "linux");
}

Result<std::unique_ptr<TerminalScreen>> TerminalScreen::open(ColorMode mode) {
  const Screen output(STDOUT_FILENO, mode);
  if (!output.is_terminal || !Screen(STDIN_FILENO).is_terminal)
    return usage_error("headroom top needs a terminal", "standard input or output is not a terminal",
                       "add --once, or use headroom watch");
  set_locale();
  sigset_t resized;
  sigemptyset(&resized);
  sigaddset(&resized, SIGWINCH);
  ::sigprocmask(SIG_BLOCK, &resized, nullptr);
  UniqueFd resizes(::signalfd(-1, &resized, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!resizes) return internal_error("cannot watch the terminal's size", errno_text(errno));
  const auto unknown = [] {
    const char* const term = std::getenv("TERM");
    return usage_error("headroom top does not support this terminal",
                       std::string("TERM is ") + (term == nullptr || *term == '\0' ? "not set" : term),
                       "set TERM=xterm-256color, or add --once");
  };
  // Check with setupterm() first: a failing newterm() leaks memory (ncurses 6.4).
  int found = 0;
  if (::setupterm(nullptr, STDOUT_FILENO, &found) != OK) return unknown();
  auto restore = std::make_unique<RestoreAtDeath>(escapes_at_the_end());
  ::del_curterm(::set_curterm(nullptr));
  SCREEN* const screen = ::newterm(nullptr, stdout, stdin);
  if (screen == nullptr) return unknown();
  ::set_term(screen);
  return std::unique_ptr<TerminalScreen>(
      new TerminalScreen(screen, std::move(resizes), std::move(restore), output.colors));
}

}  // namespace headroom::tui
