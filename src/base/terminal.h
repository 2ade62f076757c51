// Standard output, what the user's terminal can do, and a progress line that appears only on one.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace headroom {

enum class ColorMode { automatic, always, never };

// The one way to standard output. A failure ends nothing that is under way: it is kept for output_status().
void print_output(std::string_view text);
// What became of all that was printed. A closed pipe (`headroom … | head`) is not an error.
Status output_status();
// False once something could not be printed: whoever prints without an end may stop.
bool output_is_open();

// Without terminal control: escape sequences (colours, cursor movements, window titles) and control
// characters but tab and newline are left out. What another program said must neither paint the log nor move
// the cursor.
std::string without_terminal_control(std::string_view text);

// Decides once from --color, NO_COLOR, FORCE_COLOR, TERM=dumb and whether the stream is a terminal.
bool use_color(ColorMode mode, int fd);
bool is_terminal(int fd);
// Columns of the terminal on this descriptor, or 80.
int terminal_width(int fd);

// One line on stderr, redrawn in place; prints nothing when stderr is not a terminal.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // clears the line
  // Redraws at most 10 times a second. `fraction` in [0, 1], or negative when the total is unknown.
  void update(std::string_view label, double fraction, std::string_view detail);
  void clear();
  // Clears whichever line is drawn, so that a message does not begin behind it.
  static void clear_drawn();

 private:
  bool enabled_;
  bool drawn_ = false;
  Nanoseconds last_draw_{};
};

}  // namespace headroom
