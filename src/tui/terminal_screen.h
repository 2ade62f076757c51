// The full-screen terminal, drawn with ncurses. The terminal is restored on every exit, also after a deadly
// signal.
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "tui/canvas.h"
#include "tui/top_keys.h"

namespace headroom::tui {

class TerminalScreen {
 public:
  // Errors: standard input or output is not a terminal, or TERM names an unknown terminal.
  static Result<std::unique_ptr<TerminalScreen>> open(ColorDepth depth);
  virtual ~TerminalScreen() = default;
  virtual int width() const = 0;
  virtual int height() const = 0;
  // Becomes readable when the size has changed; then call resize().
  virtual int resize_fd() const = 0;
  virtual void resize() = 0;
  virtual void show(const Canvas& canvas) = 0;
  // The next pressed key, if any.
  virtual std::optional<Key> next_key() = 0;
};

// True if bars and charts should be drawn in ASCII: on the Linux console, and in locales without UTF-8.
bool wants_ascii();

}  // namespace headroom::tui
