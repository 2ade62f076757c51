#include "tui/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/display_width.h"
#include "tui/panels.h"

namespace headroom::tui {
namespace {

// The maximum rows of each panel.
struct PanelRows {
  int chart_height = 0;
  int lines = 1;  // for each kind of sensor
  int gpus = 2;
  int alerts = 1;
};

PanelRows panel_rows(int height) {
  if (height >= 45) return {9, 3, 8, 4};
  if (height >= 32) return {6, 2, 4, 2};
  if (height >= 24) return {4, 1, 2, 1};
  return {height >= 20 ? 3 : 0, 1, 1, 1};
}

void draw_title(Canvas& canvas, const TopPicture& picture) {
  canvas.put(0, 0, {{"headroom top ", {Ink::title, true}}, {picture.source, {}}});
  canvas.put_right(0, " " + picture.pace + (picture.clock.empty() ? "" : "  " + picture.clock), {Ink::dim});
}

// Draws everything above the processes. Returns the next free row.
int draw_upper(Canvas& canvas, const TopPicture& picture, const TopChoice& choice, int height) {
  const PanelRows rows = panel_rows(height);
  draw_title(canvas, picture);
  int row = 1;
  if (choice.show_memory) {
    row = draw_memory(canvas, row, picture, choice);
    row = draw_gpus(canvas, row, picture, choice, rows.gpus);
  }
  if (choice.show_machine) row = draw_machine(canvas, row, picture, choice, rows.lines);
  row = draw_alerts(canvas, row, picture, rows.alerts);
  if (choice.show_charts && rows.chart_height > 0 && picture.history != nullptr)
    row = draw_charts(canvas, row, picture, choice, rows.chart_height);
  return row;
}

}  // namespace

std::string short_size(Bytes bytes) {
  static constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes.count);
  std::size_t unit = 0;
  // 999.5 would be printed with four digits.
  while (std::abs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes.count);
  const double size = std::abs(value);
  return fmt::format("{:.{}f} {}", value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, kUnits[unit]);
}

Ink ink_of_percent(double percent, Ink usual) {
  return percent >= 90 ? Ink::critical : percent >= 80 ? Ink::warning : usual;
}

std::string bar_text(double share, int columns, bool ascii) {
  static constexpr std::array kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * columns * 8));
  std::string text;
  int used = 0;
  for (; used < eighths / 8; ++used) text += ascii ? "#" : "█";
  if (!ascii && eighths % 8 != 0) {
    text += kEighths[static_cast<std::size_t>(eighths % 8)];
    ++used;
  }
  for (; used < columns; ++used) text += ascii ? "." : "░";
  return text;
}

int put_flow(Canvas& canvas, int row, const std::vector<Spans>& pieces, int lines) {
  int column = 0, line = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const int width = width_of(pieces[i]);
    const std::string rest = fmt::format(" +{}", pieces.size() - i);
    // On the last line, keep space for the count of the remaining pieces, unless this is the last piece.
    const int kept = line + 1 == lines && i + 1 < pieces.size() ? display_width(rest) : 0;
    if (column > 0 && column + 2 + width + kept > canvas.width()) {
      if (line + 1 == lines) {
        canvas.put(column, row + line, rest, {Ink::dim});
        return row + lines;
      }
      ++line;
      column = 0;
    }
    column = canvas.put(column == 0 ? 0 : column + 2, row + line, pieces[i]);
  }
  return row + line + 1;
}

int process_rows(const TopPicture& picture, const TopChoice& choice, int width, int height) {
  Canvas canvas(width, height);
  return std::max(1, height - draw_upper(canvas, picture, choice, height) - 2);
}

Canvas draw_top(const TopPicture& picture, const TopChoice& choice, int width, int height) {
  Canvas canvas(width, height);
  if (choice.help) {
    draw_help(canvas);
    return canvas;
  }
  const int row = draw_upper(canvas, picture, choice, height);
  if (choice.show_processes) draw_processes(canvas, row, height - 1, picture, choice);
  if (choice.interactive) draw_keys(canvas, choice);
  return canvas;
}

Canvas draw_top_once(const TopPicture& picture, const TopChoice& choice, int width, int processes) {
  constexpr int kHigh = 200;  // more than the upper panels ever need
  Canvas probe(width, kHigh);
  const int row = draw_upper(probe, picture, choice, kHigh);
  const int shown = std::clamp(static_cast<int>(rows_of(*picture.sample, choice).size()), 1, processes);
  Canvas canvas(width, row + shown + 1);
  draw_upper(canvas, picture, choice, kHigh);
  draw_processes(canvas, row, row + shown + 1, picture, choice);
  return canvas;
}

}  // namespace headroom::tui
