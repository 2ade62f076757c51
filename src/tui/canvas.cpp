#include "tui/canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace headroom::tui {
namespace {

struct InkColors {
  int of_256, of_16;
};
// In the order of Ink. Blue is too dark on most terminals, so lighter colours of the palette replace it.
constexpr std::array<InkColors, kInks> kColors{{{-1, -1},
                                                {245, 8},
                                                {75, 6},
                                                {103, 8},
                                                {75, 6},
                                                {113, 2},
                                                {179, 3},
                                                {75, 6},
                                                {176, 5},
                                                {113, 2},
                                                {214, 3},
                                                {203, 1}}};

std::string escape_for(const Style& style, ColorDepth depth) {
  std::string codes = "0";
  if (style.bold) codes += ";1";
  if (style.reversed) codes += ";7";
  const int color = color_of(style.ink, depth == ColorDepth::colors_256);
  if (color >= 16)
    codes += fmt::format(";38;5;{}", color);
  else if (color >= 0)
    codes += fmt::format(";{}", color < 8 ? 30 + color : 82 + color);
  return "\033[" + codes + "m";
}

}  // namespace

int color_of(Ink ink, bool of_256) {
  const InkColors& colors = kColors[static_cast<std::size_t>(ink)];
  return of_256 ? colors.of_256 : colors.of_16;
}

int width_of(const Spans& spans) {
  int width = 0;
  for (const Span& span : spans) width += display_width(span.text);
  return width;
}

Canvas::Canvas(int width, int height) : width_(std::max(width, 1)), height_(std::max(height, 1)) {
  cells_.resize(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_));
}

int Canvas::put(int column, int row, std::string_view utf8, Style style) {
  if (row < 0 || row >= height_) return column;
  while (!utf8.empty()) {
    const Utf8Character next = take_utf8(utf8);
    const int width = display_width(next.bytes);
    if (column < 0 || column + width > width_) return column;
    const std::size_t index = index_of(column, row);
    if (width == 0) {
      if (column > 0) cells_[index - 1].glyph += next.bytes;
      continue;
    }
    const bool is_printable = next.valid && next.code >= 0x20 && (next.code < 0x7F || next.code >= 0xA0);
    cells_[index] = {is_printable ? std::string(next.bytes) : "?", style};
    if (width == 2) cells_[index + 1] = {"", style};
    column += width;
  }
  return column;
}

int Canvas::put(int column, int row, const Spans& spans) {
  for (const Span& span : spans) column = put(column, row, span.text, span.style);
  return column;
}

void Canvas::put_right(int row, std::string_view utf8, Style style) {
  put(std::max(0, width_ - display_width(utf8)), row, utf8, style);
}

void Canvas::reverse_row(int row) {
  for (int column = 0; column < width_ && row >= 0 && row < height_; ++column)
    cells_[index_of(column, row)].style.reversed = true;
}

std::string to_text(const Canvas& canvas, ColorDepth depth) {
  std::string text;
  for (int row = 0; row < canvas.height(); ++row) {
    int end = canvas.width();
    while (end > 0 && canvas.at(end - 1, row).glyph == " ") --end;
    Style style;
    for (int column = 0; column < end; ++column) {
      const Cell& cell = canvas.at(column, row);
      if (depth != ColorDepth::none && cell.style != style) text += escape_for(cell.style, depth);
      style = cell.style;
      text += cell.glyph;
    }
    if (depth != ColorDepth::none && style != Style{}) text += "\033[0m";
    text += '\n';
  }
  return text;
}

}  // namespace headroom::tui
