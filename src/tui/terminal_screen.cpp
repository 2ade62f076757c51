#include "tui/terminal_screen.h"

#include <fcntl.h>
#include <langinfo.h>
#include <ncurses.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/files.h"
#include "base/utf8.h"

// term.h defines these as macros.
#undef columns
#undef lines

namespace headroom::tui {
namespace {

// Data for the handler of deadly signals: plain memory that is written before the handler is installed.
termios saved_settings{};
std::array<char, 256> restore_text{};
std::size_t restore_size = 0;

constexpr std::array kDeadly{SIGQUIT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS};
std::array<struct sigaction, kDeadly.size()> actions_before{};

// Restores the terminal, then raises the signal again for the previous handler (a sanitizer, or the default
// action).
void on_deadly_signal(int number) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDOUT_FILENO, restore_text.data(), restore_size);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &saved_settings);
  for (std::size_t i = 0; i < kDeadly.size(); ++i)
    if (kDeadly[i] == number) ::sigaction(number, &actions_before[i], nullptr);
  ::raise(number);
}

void append_capability(const char* name) {
  const char* const text = ::tigetstr(name);
  if (text == nullptr || text == reinterpret_cast<const char*>(-1)) return;
  const std::size_t size = std::min(std::strlen(text), restore_text.size() - restore_size);
  std::copy_n(text, size, restore_text.begin() + static_cast<std::ptrdiff_t>(restore_size));
  restore_size += size;
}

// Collects standard error while the screen is shown, and prints it afterwards. Otherwise messages of
// libraries, child processes and the log would damage the screen.
class HeldErrors {
 public:
  HeldErrors() {
    if (::isatty(STDERR_FILENO) != 1) return;
    held_.reset(::memfd_create("standard error", MFD_CLOEXEC));
    before_.reset(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
    if (held_ && before_) ::dup2(held_.get(), STDERR_FILENO);
  }
  ~HeldErrors() {
    if (!held_ || !before_) return;
    ::dup2(before_.get(), STDERR_FILENO);
    std::array<char, 4096> piece{};
    off_t at = 0;
    for (ssize_t got = 0; (got = ::pread(held_.get(), piece.data(), piece.size(), at)) > 0; at += got)
      [[maybe_unused]] const auto written =
          write_all(STDERR_FILENO, {piece.data(), static_cast<std::size_t>(got)});
  }
  HeldErrors(const HeldErrors&) = delete;
  HeldErrors& operator=(const HeldErrors&) = delete;

 private:
  UniqueFd held_, before_;
};

class NcursesScreen final : public TerminalScreen {
 public:
  NcursesScreen(SCREEN* screen, UniqueFd resizes, ColorDepth depth)
      : screen_(screen), resizes_(std::move(resizes)) {
    ::cbreak();
    ::noecho();
    ::keypad(stdscr, TRUE);
    ::nodelay(stdscr, TRUE);
    ::set_escdelay(50);
    ::curs_set(0);
    ::leaveok(stdscr, TRUE);
    has_colors_ = depth != ColorDepth::none && ::has_colors();
    if (has_colors_) {
      ::start_color();
      ::use_default_colors();
      for (int ink = 0; ink < kInks; ++ink) {
        const int wanted = depth == ColorDepth::colors_256 && COLORS >= 256
                               ? color_of_256(static_cast<Ink>(ink))
                               : color_of_16(static_cast<Ink>(ink));
        ::init_pair(static_cast<short>(ink + 1), static_cast<short>(wanted < COLORS ? wanted : -1), -1);
      }
    }
    catch_deadly_signals();
  }
  ~NcursesScreen() override {
    for (std::size_t i = 0; i < kDeadly.size(); ++i) ::sigaction(kDeadly[i], &actions_before[i], nullptr);
    ::endwin();
    ::delscreen(screen_);
  }
  NcursesScreen(const NcursesScreen&) = delete;
  NcursesScreen& operator=(const NcursesScreen&) = delete;

  int width() const override { return getmaxx(stdscr); }
  int height() const override { return getmaxy(stdscr); }
  int resize_fd() const override { return resizes_.get(); }

  void resize() override {
    signalfd_siginfo info{};
    while (::read(resizes_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    }
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return;
    ::resizeterm(size.ws_row, size.ws_col);
    ::clearok(stdscr, TRUE);  // the terminal may have moved its content
  }

  void show(const Canvas& canvas) override {
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

  std::optional<Key> next_key() override {
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

 private:
  static std::optional<Key> special_key(wint_t code) {
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
  static void catch_deadly_signals() {
    restore_size = 0;
    for (const char* name : {"sgr0", "cnorm", "rmkx", "rmcup"}) append_capability(name);
    struct sigaction action {};
    action.sa_handler = on_deadly_signal;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kDeadly.size(); ++i) ::sigaction(kDeadly[i], &action, &actions_before[i]);
  }

  HeldErrors errors_;
  SCREEN* screen_;
  UniqueFd resizes_;
  bool has_colors_ = false;
};

// Use UTF-8 for bars also in the locales C and POSIX: most of these are shells over ssh, whose terminal
// supports UTF-8.
void set_locale() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(::nl_langinfo(CODESET)) == "ANSI_X3.4-1968") std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

bool wants_ascii() {
  set_locale();
  const char* const term = std::getenv("TERM");
  return std::string_view(::nl_langinfo(CODESET)) != "UTF-8" ||
         (term != nullptr && std::string_view(term) == "linux");
}

Result<std::unique_ptr<TerminalScreen>> TerminalScreen::open(ColorDepth depth) {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1)
    return usage_error("headroom top needs a terminal", "standard input or output is not a terminal",
                       "add --once, or use headroom watch");
  set_locale();
  if (::tcgetattr(STDIN_FILENO, &saved_settings) != 0)
    return internal_error("cannot read the terminal's settings", errno_text(errno));
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
  ::del_curterm(::set_curterm(nullptr));
  SCREEN* const screen = ::newterm(nullptr, stdout, stdin);
  if (screen == nullptr) return unknown();
  ::set_term(screen);
  return std::make_unique<NcursesScreen>(screen, std::move(resizes), depth);
}

}  // namespace headroom::tui
