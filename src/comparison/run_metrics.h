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

// The percentile of "latency": what a frame takes while nobody else is at work. The lower, the less it moves
// from run to run where others want the cores: by 4 %, where P50 moves by half
// (benchmarks/results/diff_power.md). Below it is one frame of 50.
inline constexpr double kUndisturbed = 0.02;

// One model of one run, with the times of its frames where the run kept them, or with what they had told.
struct MeasuredFigures {
  const ModelResult& model;
  std::span<const FrameTimes> frames;
  std::optional<double> latency = {}, disturbance = {};  // used where there are no frames
  // Of "latency". Runs of few frames are compared by the percentile that their fastest frame is.
  double undisturbed = kUndisturbed;
};

struct RunMetric {
  std::string_view name;  // "run_peak"
  std::string_view help;
  MetricUnit unit;
  // Absent where the run did not measure it.
  std::optional<double> (*value)(const MeasuredFigures& run);

  // How much of the false alarms is its own, of 0.05 for all, where an allowance stands for what runs differ
  // by; 0: it is shown and changes no verdict.
  double alpha = 0;
  // What two runs of the same thing differ by (one standard deviation): a share of the value, and an absolute
  // part. Used where too few runs were given to tell; benchmarks/results/diff_power.md is where they are
  // from.
  double run_to_run_share = 0, run_to_run = 0;
  // A smaller change than this share, and this much, is no news, however certain it is.
  double least_share = 0, least = 0;
  // Of percentiles of the frames: which one, so that few frames are not trusted too far.
  double percentile = 0;
  // What a disturbed run adds to that: this much of the distance, as a logarithm, from the undisturbed
  // latency to the median.
  double disturbance = 0;
  // And a run with a long tail: this much of the distance, as a logarithm, from the median to the 99th
  // percentile. Where others want the processors now and then, their turns are the tail of one run and not of
  // the next.
  double tail = 0;
  // Of proportional shares: this much of the pages of files, which count by how many processes map them.
  double shared_pages = 0;
  bool more_is_better = false;
  bool holds_file_pages = false;  // resident memory, in which pages of files are counted
  bool is_mean = false;           // of the frames' inference
  // The same of 0.05 where the runs themselves tell what they differ by: then a tail and a rate are judged,
  // too, of which an allowance would have to be so wide that it says nothing.
  double alpha_of_runs = 0;
};

// ln(median / undisturbed) of the inference: 0.03 on a machine that is idle but for the run, 1 where others
// want its cores. Absent without frames.
std::optional<double> disturbance_of(const MeasuredFigures& run);

// ln(99th percentile / median) of the inference; 0 where it is not known.
double tail_of(const ModelResult& model);

std::span<const RunMetric> run_metrics();
// nullptr if there is none of that name.
const RunMetric* find_run_metric(std::string_view name);
std::vector<std::string> run_metric_names();

}  // namespace headroom::comparison
