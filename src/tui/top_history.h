// Past values for the charts.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "types/sample.h"

namespace headroom::tui {

enum class Curve { memory, gpu, gpu_memory, cpu, stalls, swap };
inline constexpr int kCurves = 6;

// The value of a curve in percent; absent if the sample has no such figure.
//   memory      used part of MemTotal
//   gpu         GPU load
//   gpu_memory  used memory of the fullest discrete GPU
//   cpu         CPU load
//   stalls      time in which a task waited for memory (PSI "some", average of 10 s)
//   swap        used part of swap
std::optional<double> percent_of(Curve curve, const SystemSample& sample);

// The last kMost samples: 24 bytes each, 98 KiB in total.
class TopHistory {
 public:
  static constexpr std::size_t kMost = 4096;

  void add(const SystemSample& sample);
  void clear() { points_.clear(), added_ = 0; }
  bool has(Curve curve) const;
  // Returns `columns` values, the newest last. Each is the maximum of `samples_per_column` samples. A sample
  // always stays in the same column, so peaks do not flicker while the chart moves.
  std::vector<std::optional<double>> columns(Curve curve, int columns, int samples_per_column) const;

 private:
  struct Point {
    float percent[kCurves];  // negative: absent
  };
  std::vector<Point> points_;  // a ring buffer when full
  std::size_t added_ = 0;
};

}  // namespace headroom::tui
