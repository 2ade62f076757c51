// Standard output, the abilities of the user's terminal, and a progress line that appears only on a terminal.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace headroom {

enum class ColorMode { automatic, always, never };

// Prints to standard output; all output goes through here. After a failure the program continues, and
// output_status() returns the error.
void print_output(std::string_view text);
// The first failure of print_output(). A closed pipe (`headroom … | head`) is not an error.
Status output_status();
// False after a failure. A command that prints endlessly may then stop.
bool output_is_open();

// Removes escape sequences (colours, cursor movements, window titles) and control characters other than tab
// and newline. Another program's output must neither colour the log nor move the cursor.
std::string without_terminal_control(std::string_view text);

// Decides from --color, NO_COLOR, FORCE_COLOR, TERM=dumb and whether the stream is a terminal.
bool use_color(ColorMode mode, int fd);
bool is_terminal(int fd);
// The terminal's width in columns, or 80 if unknown.
int terminal_width(int fd);

// One line on stderr, redrawn in place; prints nothing when stderr is not a terminal.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // clears the line
  // Redraws at most 10 times a second. `fraction` in [0, 1], or negative when the total is unknown.
  void update(std::string_view label, double fraction, std::string_view detail);
  void clear();
  // Clears the line on screen, whichever object drew it. Call this before printing a message.
  static void clear_drawn();

 private:
  bool enabled_;
  bool drawn_ = false;
  Nanoseconds last_draw_{};
};

}  // namespace headroom
