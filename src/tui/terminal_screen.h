// The terminal as a whole screen, by ncurses: it is given back as it was on every way out, also when the
// program dies of a signal.
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "tui/canvas.h"
#include "tui/top_keys.h"

namespace headroom::tui {

class TerminalScreen {
 public:
  // Errors: standard input or output is no terminal, or TERM names none that is known.
  static Result<std::unique_ptr<TerminalScreen>> open(ColorDepth depth);
  virtual ~TerminalScreen() = default;
  virtual int width() const = 0;
  virtual int height() const = 0;
  // Readable when the size has changed; then call resize().
  virtual int resize_fd() const = 0;
  virtual void resize() = 0;
  virtual void show(const Canvas& canvas) = 0;
  // The next key that was pressed, if one was.
  virtual std::optional<Key> next_key() = 0;
};

// Whether bars and charts are better drawn in ASCII: on the Linux console and in a locale that is not UTF-8.
bool wants_ascii();

}  // namespace headroom::tui
