// Charts of the last samples, side by side, as many as fit the width.

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>

#include "tui/panels.h"
#include "tui/top_view.h"

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

std::optional<double> share(const std::optional<Bytes>& part, const std::optional<Bytes>& whole) {
  if (!part || !whole || whole->count <= 0) return std::nullopt;
  return 100.0 * static_cast<double>(part->count) / static_cast<double>(whole->count);
}

std::optional<double> fullest_gpu(const SystemSample& sample) {
  std::optional<double> fullest;
  for (const GpuSample& gpu : sample.gpus)
    if (const auto percent = share(gpu.memory_used, gpu.memory_total))
      fullest = std::max(fullest.value_or(0), *percent);
  return fullest;
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

std::optional<double> percent_of(Curve curve, const SystemSample& sample) {
  if (curve == Curve::memory) return share(sample.ram_used, sample.ram_total);
  if (curve == Curve::gpu) return sample.gpu_percent;
  if (curve == Curve::gpu_memory) return fullest_gpu(sample);
  if (curve == Curve::cpu) return sample.cpu_percent;
  if (curve == Curve::stalls) return sample.psi_some_avg10;
  return share(sample.swap_used, sample.swap_total);
}

void TopHistory::add(const SystemSample& sample) {
  Point point{};
  for (int curve = 0; curve < kCurves; ++curve)
    point.percent[curve] = static_cast<float>(percent_of(static_cast<Curve>(curve), sample).value_or(-1));
  points_.push_back(point);
  if (points_.size() > kMost) points_.pop_front();
  ++added_;
}

bool TopHistory::has(Curve curve) const {
  return std::ranges::any_of(
      points_, [curve](const Point& point) { return point.percent[static_cast<std::size_t>(curve)] >= 0; });
}

std::vector<std::optional<double>> TopHistory::columns(Curve curve, int columns,
                                                       int samples_per_column) const {
  std::vector<std::optional<double>> values(static_cast<std::size_t>(std::max(columns, 0)));
  if (values.empty() || added_ == 0) return values;
  const auto step = static_cast<std::size_t>(std::max(samples_per_column, 1));
  const std::size_t last_column = (added_ - 1) / step;
  const std::size_t oldest = added_ - points_.size();
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const std::size_t back = last_column - (oldest + i) / step;
    const float percent = points_[i].percent[static_cast<std::size_t>(curve)];
    if (back >= values.size() || percent < 0) continue;
    auto& value = values[values.size() - 1 - back];
    value = std::max(value.value_or(0), static_cast<double>(percent));
  }
  return values;
}

}  // namespace headroom::tui
