// The full-screen terminal, drawn with ncurses. The terminal is restored on every exit, also after a deadly
// signal.
#pragma once

#include <memory>
#include <optional>

#include "base/files.h"
#include "base/result.h"
#include "tui/canvas.h"
#include "tui/top_keys.h"

namespace headroom::tui {

class TerminalScreen {
 public:
  // Errors: standard input or output is not a terminal, or TERM names an unknown terminal.
  static Result<std::unique_ptr<TerminalScreen>> open(ColorMode mode);
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  int width() const;
  int height() const;
  // Becomes readable when the size has changed; then call resize().
  int resize_fd() const { return resizes_.get(); }
  void resize();
  void show(const Canvas& canvas);
  std::optional<Key> next_key();

 private:
  TerminalScreen(void* screen, UniqueFd resizes, std::unique_ptr<RestoreAtDeath> restore, ColorDepth depth);
  void hold_errors();

  void* screen_;  // ncurses' SCREEN
  UniqueFd resizes_, held_errors_, own_errors_;
  std::unique_ptr<RestoreAtDeath> restore_;
  bool has_colors_ = false;
};

// True if bars and charts should be drawn in ASCII: on the Linux console, and in locales without UTF-8.
bool wants_ascii();

}  // namespace headroom::tui
