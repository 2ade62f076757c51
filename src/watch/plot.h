// Memory over time, on the terminal and as a picture.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/series_summary.h"

namespace headroom::watch {

// The curves of a watch: those that its samples had.
class MemoryCurves {
 public:
  struct Curve {
    std::string title;
    analysis::SeriesCurve curve;
  };
  void add(const SystemSample& sample);
  const std::vector<Curve>& curves() const { return curves_; }
  std::optional<Bytes> ram_total() const { return ram_total_; }

 private:
  void add(const char* title, Nanoseconds time, const std::optional<Bytes>& value);
  std::vector<Curve> curves_;
  std::optional<Bytes> ram_total_;
};

// A chart a curve, `width` columns wide; the top of each column is the largest sample in it.
std::string plot_for_terminal(const MemoryCurves& curves, int width, int rows = 6);

// One picture with all curves: line of the means, band from the smallest to the largest. Self-contained.
std::string plot_as_svg(const MemoryCurves& curves, const std::string& title);
std::string plot_as_html(const MemoryCurves& curves, const std::string& title);

}  // namespace headroom::watch
