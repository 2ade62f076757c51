#include "tui/top_history.h"

#include <algorithm>

namespace headroom::tui {
namespace {

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

std::optional<double> percent_of(Curve curve, const SystemSample& sample) {
  switch (curve) {
    case Curve::memory:
      return share(sample.ram_used, sample.ram_total);
    case Curve::gpu:
      return sample.gpu_percent;
    case Curve::gpu_memory:
      return fullest_gpu(sample);
    case Curve::cpu:
      return sample.cpu_percent;
    case Curve::stalls:
      return sample.psi_some_avg10;
    case Curve::swap:
      return share(sample.swap_used, sample.swap_total);
  }
  return std::nullopt;
}

void TopHistory::add(const SystemSample& sample) {
  Point point{};
  for (int curve = 0; curve < kCurves; ++curve)
    point.percent[curve] = static_cast<float>(percent_of(static_cast<Curve>(curve), sample).value_or(-1));
  if (points_.size() < kMost)
    points_.push_back(point);
  else
    points_[added_ % kMost] = point;
  ++added_;
}

bool TopHistory::has(Curve curve) const {
  return std::any_of(points_.begin(), points_.end(), [curve](const Point& point) {
    return point.percent[static_cast<std::size_t>(curve)] >= 0;
  });
}

std::vector<std::optional<double>> TopHistory::columns(Curve curve, int columns,
                                                       int samples_per_column) const {
  std::vector<std::optional<double>> values(static_cast<std::size_t>(std::max(columns, 0)));
  if (values.empty() || added_ == 0) return values;
  const auto step = static_cast<std::size_t>(std::max(samples_per_column, 1));
  const std::size_t last_column = (added_ - 1) / step;
  const std::size_t oldest = added_ - points_.size();
  for (std::size_t back = 0; back < values.size() && back <= last_column; ++back) {
    const std::size_t column = last_column - back;
    auto& value = values[values.size() - 1 - back];
    for (std::size_t i = std::max(column * step, oldest); i < std::min((column + 1) * step, added_); ++i) {
      const float percent = points_[i % kMost].percent[static_cast<std::size_t>(curve)];
      if (percent >= 0) value = std::max(value.value_or(0), static_cast<double>(percent));
    }
  }
  return values;
}

}  // namespace headroom::tui
