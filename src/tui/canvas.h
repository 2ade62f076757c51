// A screen of character cells in memory. The same picture can go to a terminal, a file or a test.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/terminal.h"

namespace headroom::tui {

// The meaning of a character. It determines the colour.
enum class Ink : std::uint8_t {
  plain,
  dim,
  title,
  system,
  processes,
  gpu,
  cache,
  cpu,
  swap,
  good,
  warning,
  critical
};
inline constexpr int kInks = 12;

// The colour number in xterm's palette of 256, or in the 16 standard colours. -1: the terminal's default
// colour.
int color_of(Ink ink, bool of_256);

struct Style {
  Ink ink = Ink::plain;
  bool bold = false, reversed = false;
  friend bool operator==(const Style&, const Style&) = default;
};

struct Span {
  std::string text;
  Style style;
};
// A piece of a line that is never split over two lines.
using Spans = std::vector<Span>;

int width_of(const Spans& spans);

struct Cell {
  std::string glyph = " ";  // empty: the right half of a wide character
  Style style;
};

// A grid of cells. Text outside the grid is clipped.
class Canvas {
 public:
  Canvas(int width, int height);
  int width() const { return width_; }
  int height() const { return height_; }
  const Cell& at(int column, int row) const { return cells_[index_of(column, row)]; }

  // Returns the column after the text.
  int put(int column, int row, std::string_view utf8, Style style = {});
  int put(int column, int row, const Spans& spans);
  void put_right(int row, std::string_view utf8, Style style = {});
  // Inverts a whole row, as a cursor does.
  void reverse_row(int row);

 private:
  std::size_t index_of(int column, int row) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(width_) +
           static_cast<std::size_t>(column);
  }

  int width_, height_;
  std::vector<Cell> cells_;
};

// The canvas as lines without trailing spaces, with escape sequences for colours.
std::string to_text(const Canvas& canvas, ColorDepth depth);

}  // namespace headroom::tui
