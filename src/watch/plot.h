// Plots memory over time, in the terminal and as an SVG picture.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "monitoring/series_summary.h"

namespace headroom::watch {

// The memory curves of a watch. A curve exists if samples had its figure.
class MemoryCurves {
 public:
  struct Curve {
    std::string title;
    monitoring::SeriesCurve curve;
  };
  void add(const SystemSample& sample);
  const std::vector<Curve>& curves() const { return curves_; }
  std::optional<Bytes> ram_total() const { return ram_total_; }

 private:
  void add(const char* title, Nanoseconds time, const std::optional<Bytes>& value);
  std::vector<Curve> curves_;
  std::optional<Bytes> ram_total_;
};

// One chart per curve, `width` columns wide. The top of each column is the largest sample in its time span.
std::string plot_for_terminal(const MemoryCurves& curves, int width, int rows = 6);

// One self-contained picture with all curves: a line through the means, a band from minimum to maximum.
std::string plot_as_svg(const MemoryCurves& curves, const std::string& title);
// One self-contained page with a chart per curve.
std::string plot_as_html(const MemoryCurves& curves, const std::string& title);

}  // namespace headroom::watch
