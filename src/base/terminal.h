// Standard output, the abilities and colours of the user's terminal, and a progress line that appears only on
// a terminal.
#pragma once

#include <unistd.h>

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace headroom {

// Prints to standard output; all output goes through here. After a failure the program continues, and
// output_status() returns the error.
void print_output(std::string_view text);
// The first failure of print_output(). A closed pipe (`headroom … | head`) is not an error.
Status output_status();
// False after a failure. A command that prints endlessly may then stop.
bool output_is_open();

// Removes escape sequences (colours, cursor movements, window titles) and control characters other than tab
// and newline, and replaces invalid UTF-8. Another program's output must neither colour the log nor move the
// cursor.
std::string without_terminal_control(std::string_view text);

enum class ColorMode { automatic, always, never };
enum class ColorDepth { none, colors_16, colors_256 };

// What an output can show. Everything that is drawn for a person asks here: reports, progress, top and watch.
struct Screen {
  bool is_terminal = false;
  int width = 80, height = 24;  // if it is not a terminal, or its size is unknown
  ColorDepth colors = ColorDepth::none;

  // Colours depend on --color, NO_COLOR, FORCE_COLOR, TERM and COLORTERM, and on whether it is a terminal.
  explicit Screen(int fd = STDOUT_FILENO, ColorMode mode = ColorMode::automatic);
  bool in_color() const { return colors != ColorDepth::none; }
};

// The colours of text.
inline constexpr std::string_view kRed = "\033[31m", kGreen = "\033[32m", kYellow = "\033[33m",
                                  kBold = "\033[1m", kNoPaint = "\033[0m";
std::string painted(std::string_view text, std::string_view paint, bool color);

// Leaves the terminal usable if a deadly signal (SIGSEGV, SIGABRT, …) ends a full-screen program: restores
// its settings and prints `escapes`. The destructor restores nothing, but the signals' earlier actions.
class RestoreAtDeath {
 public:
  explicit RestoreAtDeath(std::string_view escapes);
  ~RestoreAtDeath();
  RestoreAtDeath(const RestoreAtDeath&) = delete;
  RestoreAtDeath& operator=(const RestoreAtDeath&) = delete;
};

// One line on stderr, redrawn in place; prints nothing when stderr is not a terminal.
class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine();  // clears the line
  // Redraws at most 10 times a second. `fraction` in [0, 1], or negative when the total is unknown.
  void update(std::string_view label, double fraction, std::string_view detail);
  void clear();
  // Clears the line on screen, whichever object drew it. Call this before printing a message.
  static void clear_drawn();

 private:
  bool drawn_ = false;
  Nanoseconds last_draw_{};
};

}  // namespace headroom
