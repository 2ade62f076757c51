// The summaries of a watch: text, and memory over time in the terminal, as an SVG picture and as a page.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "monitoring/sample_metrics.h"
#include "types/sample.h"

namespace headroom::watch {

// The memory curves of a watch. A curve exists if samples had its figure.
class MemoryCurves {
 public:
  struct Curve {
    std::string title;
    monitoring::SeriesCurve curve;
    bool is_of_ram = false;  // a part of the machine's memory
  };
  void add(const SystemSample& sample);
  const std::vector<Curve>& curves() const { return curves_; }
  std::optional<Bytes> ram_total() const { return ram_total_; }

 private:
  void add(const char* title, Nanoseconds time, const std::optional<Bytes>& value, bool is_of_ram = false);
  std::vector<Curve> curves_;
  std::optional<Bytes> ram_total_;
};

// One chart per curve, `width` columns wide. The top of each column is the largest sample in its time span.
std::string plot_for_terminal(const MemoryCurves& curves, int width);

// One self-contained picture with all curves: a line through the means, a band from minimum to maximum.
std::string plot_as_svg(const MemoryCurves& curves, const std::string& title);
// One self-contained page with a chart per curve.
std::string plot_as_html(const MemoryCurves& curves, const std::string& title);

// One row per metric: minimum, mean, maximum and slope; for event counts only their sum.
std::string summary_table(std::span<const monitoring::SeriesSummary> metrics, bool color);

// The baseline: the parts of the machine's memory, signs that the machine was not idle, the largest
// processes.
std::string baseline_words(std::span<const monitoring::SeriesSummary> metrics, const SystemSample& last);

}  // namespace headroom::watch
