// Charts of the last samples, side by side, as many as fit the width.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tui/panels.h"

namespace headroom::tui {
namespace {

struct ChartKind {
  Curve curve;
  const char* name;
  Ink ink;
};
// By importance: on a narrow screen the last ones are left out.
constexpr std::array<ChartKind, kCurves> kCharts{{{Curve::memory, "Memory", Ink::processes},
                                                  {Curve::gpu, "GPU", Ink::gpu},
                                                  {Curve::gpu_memory, "GPU memory", Ink::gpu},
                                                  {Curve::cpu, "CPU", Ink::cpu},
                                                  {Curve::stalls, "Stalls", Ink::warning},
                                                  {Curve::swap, "Swap", Ink::swap}}};
constexpr int kNarrowest = 24, kGap = 2;

void draw_chart(Canvas& canvas, int left, int row, int width, int height, const ChartKind& kind,
                const TopPicture& picture, const TopChoice& choice) {
  static constexpr const char* kEighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr const char* kAscii[] = {" ", ".", ".", ".", ":", ":", ":", "#", "#"};
  const auto now = percent_of(kind.curve, *picture.sample);
  const int column = canvas.put(left, row, std::string(kind.name) + " ", {Ink::title, true});
  std::string height_now = "no data";
  if (now) height_now = fmt::format("{:.0f} %", *now);
  canvas.put(column, row, height_now, {now ? Ink::plain : Ink::dim});
  const auto values = picture.history->columns(kind.curve, width, choice.samples_per_column);
  for (int x = 0; x < width; ++x) {
    const auto& value = values[static_cast<std::size_t>(x)];
    if (!value) continue;
    // Draw at least an eighth of a cell, so that a known value is visible.
    const double percent = std::clamp(*value, 0.0, 100.0);
    int eighths = static_cast<int>(std::lround(percent / 100 * height * 8));
    if (eighths == 0) eighths = 1;
    for (int y = 0; y < height && eighths > 0; ++y, eighths -= 8)
      canvas.put(left + x, row + height - y, (choice.ascii ? kAscii : kEighths)[eighths < 8 ? eighths : 8],
                 {percent < 0.5 ? Ink::dim : kind.ink});
  }
}

}  // namespace

int draw_charts(Canvas& canvas, int row, const TopPicture& picture, const TopChoice& choice, int height) {
  std::vector<ChartKind> shown;
  const int max_charts = std::max(1, (canvas.width() + kGap) / (kNarrowest + kGap));
  for (const ChartKind& kind : kCharts)
    if (static_cast<int>(shown.size()) < max_charts && picture.history->has(kind.curve))
      shown.push_back(kind);
  if (shown.empty() || height < 2) return row;
  const int count = static_cast<int>(shown.size());
  const int width = (canvas.width() - kGap * (count - 1)) / count;
  for (int i = 0; i < count; ++i)
    draw_chart(canvas, i * (width + kGap), row, width, height - 1, shown[static_cast<std::size_t>(i)],
               picture, choice);
  return row + height;
}

}  // namespace headroom::tui
