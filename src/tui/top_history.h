// The figures of past samples that the charts draw.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "model/sample.h"

namespace headroom::tui {

enum class Curve { memory, gpu, gpu_memory, cpu, stalls, swap };
inline constexpr int kCurves = 6;

// Percent of MemTotal that is used, GPU load, memory of the fullest GPU that has its own, CPU load, time with
// a task that waited for memory, swap in use. Absent where the sample does not tell.
std::optional<double> percent_of(Curve curve, const SystemSample& sample);

// The last kMost samples: 24 bytes each, 98 KiB in all.
class TopHistory {
 public:
  static constexpr std::size_t kMost = 4096;

  void add(const SystemSample& sample);
  void clear() { points_.clear(), added_ = 0; }
  bool has(Curve curve) const;
  // `columns` values, the newest last, each the highest of `samples_a_column` samples. A column has the same
  // samples for as long as it is seen: peaks do not come and go while the chart moves.
  std::vector<std::optional<double>> columns(Curve curve, int columns, int samples_a_column) const;

 private:
  struct Point {
    float percent[kCurves];  // negative: absent
  };
  std::vector<Point> points_;  // a ring once it is full
  std::size_t added_ = 0;
};

}  // namespace headroom::tui
