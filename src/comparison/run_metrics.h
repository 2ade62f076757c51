// The figures of a model by name, for headroom diff, --fail-on and headroom history. docs/diff.md has the
// same list.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "types/bench_result.h"

namespace headroom::comparison {

enum class MetricUnit { bytes, nanoseconds, per_second, count };

// The percentile of "latency": a frame without disturbance. On a busy machine it varies by 4 % from run to
// run, and P50 by half (benchmarks/results/diff_power.md).
inline constexpr double kUndisturbed = 0.02;

// One model of one run, with the times of its frames or its kept latency.
struct MeasuredFigures {
  const ModelResult& model;
  std::span<const FrameTimes> frames;
  std::optional<double> latency = {};  // used where there are no frames
};

struct RunMetric {
  std::string_view name;  // "run_peak"
  std::string_view help;
  MetricUnit unit;
  // Absent if the run did not measure it.
  std::optional<double> (*value)(const MeasuredFigures& run);

  // Its share of the 5 % of false alarms; 0: not judged.
  double alpha = 0;
  // For memory, the difference between two equal runs (one standard deviation): a share of the value, and
  // an absolute part (benchmarks/results/diff_power.md).
  double run_to_run_share = 0, run_to_run = 0;
  // A change must exceed both.
  double least_share = 0, least = 0;
  double percentile = 0;    // of the frames, where it is one
  double shared_pages = 0;  // of proportional shares: this much of the pages of files is by chance
  bool more_is_better = false;
  bool holds_file_pages = false;  // resident memory, in which pages of files are counted

  // One run does not show how much a time or rate varies.
  bool needs_repeats() const { return unit == MetricUnit::nanoseconds || unit == MetricUnit::per_second; }
};

std::span<const RunMetric> run_metrics();
// nullptr if unknown.
const RunMetric* find_run_metric(std::string_view name);
std::vector<std::string> run_metric_names();

// Results of several models at once, so that they are compared by the same metrics: "(pipeline)" with "det
// (in pipeline)", "(parallel)" with "det (in parallel)", "(pool)" with "det (in pool)". Left out if a model
// of the run has that name. Without series and frames.
std::vector<ModelResult> combined_results(const BenchResult& run);

}  // namespace headroom::comparison
