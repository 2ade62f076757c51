// What changed from the runs of one side, A (before), to those of another, B (after), model by model. Pure.
// docs/diff.md tells what counts as a change and why.
//
// With three runs or more on both sides the runs themselves tell how much two of them differ (Welch's t-test
// of their figures; where the sides were measured in turns, four times or more, the t-test of the pairs).
// With fewer the spread from run to run is an allowance, the metric's own, to which the sampling error of a
// percentile is added: neighbouring frames are alike, so a test that takes the frames for independent finds a
// change between nearly any two runs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/run_metrics.h"
#include "model/bench_result.h"

namespace headroom::analysis {

inline constexpr std::size_t kRunsToKnowTheirSpread = 3;

struct ComparedModel {
  const ModelResult* result = nullptr;
  std::vector<FrameTimes> frames;  // empty where the run kept none
  std::string fingerprint;         // of its files; empty if not known
  // What the frames had told, of a run that is kept without them (headroom history).
  std::optional<double> latency = {}, disturbance = {};

  MeasuredFigures figures() const { return {*result, frames, latency, disturbance}; }
};

struct ComparedRun {
  std::string name;  // as the user named it
  const BenchResult* result = nullptr;
  std::vector<ComparedModel> models;  // of result->models, in that order
};

using Side = std::vector<ComparedRun>;

struct MetricChange {
  const RunMetric* metric = nullptr;
  double before = 0, after = 0;  // of several runs the geometric mean
  std::size_t runs_before = 0, runs_after = 0;
  double ratio = 1, low = 1, high = 1;  // after / before, and its interval
  double confidence = 0.95;             // of the interval
  double p = 1;                         // of such a change where there is none
  bool spread_was_measured = false;     // by the runs; else allowed for
  bool was_paired = false;              // run by run, as they were made in turns
  bool differs = false;                 // it is a change, and no run-to-run noise

  double change() const { return after - before; }
  bool is_worse() const { return metric->more_is_better ? after < before : after > before; }
};

// A fact that the sides do not share: "model file", "a1b2…", "c3d4…".
struct FactChange {
  std::string what, before, after;
};

struct LayerChange {
  std::string name;
  std::optional<Bytes> before, after;  // absent: not there
  std::int64_t change() const { return after.value_or(Bytes{}).count - before.value_or(Bytes{}).count; }
};

struct ModelComparison {
  std::string name;
  std::vector<MetricChange> metrics;  // in the order of run_metrics(); what both sides have
  // That a frame of B takes longer than one of A, of all frames of all runs.
  std::optional<double> superiority;
  std::int64_t frames_before = 0, frames_after = 0;
  ModelStatus status_before = ModelStatus::ok, status_after = ModelStatus::ok;  // the worst of the runs
  std::string error_after;
  std::vector<FactChange> facts;    // of the model: file, settings, runtime
  std::vector<LayerChange> shares;  // --layers: kinds of memory, the largest change first
  std::vector<LayerChange> nodes;   // and nodes, by their activations and parameters

  const MetricChange* find(std::string_view metric) const;
};

struct RunComparison {
  std::vector<ModelComparison> models;
  std::vector<std::string> only_before, only_after;  // models
  std::vector<FactChange> facts;                     // of the machine and of the run
  std::vector<std::string> caveats;                  // why less can be told than one would think
};

// Each side has a run. Models are the same by name; where both sides have one model it is the same one.
RunComparison compare_runs(const Side& before, const Side& after);

}  // namespace headroom::analysis
