// The figures of a measured model by name: what headroom diff compares, --fail-on judges and headroom history
// keeps. One list; docs/diff.md has it as a table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "types/bench_result.h"
#include "types/frame_times.h"

namespace headroom::comparison {

enum class MetricUnit { bytes, nanoseconds, per_second, count };

// The percentile of "latency": what a frame takes while no other program is at work. The lower, the less it
// moves from run to run on a busy machine: by 4 %, where P50 moves by half
// (benchmarks/results/diff_power.md). Below it is one frame of 50.
inline constexpr double kUndisturbed = 0.02;

// One model of one run, with the times of its frames where the run kept them, or with the latency that it
// had.
struct MeasuredFigures {
  const ModelResult& model;
  std::span<const FrameTimes> frames;
  std::optional<double> latency = {};  // used where there are no frames
};

struct RunMetric {
  std::string_view name;  // "run_peak"
  std::string_view help;
  MetricUnit unit;
  // Absent where the run did not measure it.
  std::optional<double> (*value)(const MeasuredFigures& run);

  // How much of the false alarms is its own, of 0.05 for all; 0: it is shown and changes no verdict.
  double alpha = 0;
  // Of memory, what two runs of the same thing differ by (one standard deviation): a share of the value, and
  // an absolute part. Used where too few runs were given to tell; from benchmarks/results/diff_power.md.
  double run_to_run_share = 0, run_to_run = 0;
  // A smaller change than this share, and this much, is no news, however certain it is.
  double least_share = 0, least = 0;
  double percentile = 0;    // of the frames, where it is one
  double shared_pages = 0;  // of proportional shares: this much of the pages of files is by chance
  bool more_is_better = false;
  bool holds_file_pages = false;  // resident memory, in which pages of files are counted

  // A time or a rate: one run does not show what the next one would differ by.
  bool needs_repeats() const { return unit == MetricUnit::nanoseconds || unit == MetricUnit::per_second; }
};

std::span<const RunMetric> run_metrics();
// nullptr if there is none of that name.
const RunMetric* find_run_metric(std::string_view name);
std::vector<std::string> run_metric_names();

}  // namespace headroom::comparison
