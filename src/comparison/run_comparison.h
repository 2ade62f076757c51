// What changed from the runs of one side, A (before), to those of another, B (after), model by model. Pure.
// docs/diff.md tells what counts as a change and why.
//
// Only runs that a model came through in have figures: of one that fell they are of a part of its work.
//
// Memory: with three runs or more on both sides by the difference of the medians, with fewer by an allowance
// for what two runs of one thing differ by, the metric's own.
//
// Times and rates depend on what else the machine does, and one run does not show how much. Three runs or
// more on both sides do: they are compared by a bootstrap interval, pair by pair where they were made in
// turns, four times or more. With fewer runs there is no interval. The latency of runs in step is compared
// turn by turn (turns_of_runs.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comparison/run_metrics.h"
#include "types/bench_result.h"

namespace headroom::comparison {

inline constexpr std::size_t kRunsToKnowTheirSpread = 3;

struct ComparedModel {
  const ModelResult* result = nullptr;
  std::vector<FrameTimes> frames;      // empty where the run kept none
  std::string fingerprint;             // of its files; empty if not known
  std::optional<double> latency = {};  // of a run that is kept without its frames (headroom history)

  MeasuredFigures figures() const { return {*result, frames, latency}; }
};

struct ComparedRun {
  std::string name;  // as the user named it
  const BenchResult* result = nullptr;
  std::vector<ComparedModel> models;  // of result->models, in that order
};

using Side = std::vector<ComparedRun>;

struct MetricChange {
  const RunMetric* metric = nullptr;
  // Of several runs the median (memory) or the geometric mean of the middle half; of pairs `after` is
  // `before` by their ratio.
  double before = 0, after = 0;
  std::size_t runs_before = 0, runs_after = 0;
  // A value may be 0 or less (detections; what stays over the bare runtime): then there is no ratio, and the
  // interval is of the difference.
  bool has_ratio = true;
  // after / before, and its interval. Of runs in step the median of the turns' own ratios.
  double ratio = 1, low = 1, high = 1;
  double low_change = 0, high_change = 0;
  double confidence = 0.95;          // of the interval
  double p = 1;                      // of such a change where there is none
  bool spread_was_measured = false;  // by the runs; else allowed for
  bool was_paired = false;           // run by run, as they were made in turns
  bool was_in_step = false;          // turn by turn: `after` is the median of `before` by the turns' ratio
  bool is_separable = true;          // false: a time, and too few runs to tell it from noise; no interval
  bool is_judged = false;            // it makes the verdict
  bool differs = false;              // it is a change, and no run-to-run noise
  // Of resident memory: it would be a change, were it not for pages of files, of which B has this much more.
  bool is_of_file_pages = false;
  double file_pages = 0;
  bool is_of_step = false;      // or were it not as much as runs of one thing differ by now and then
  bool has_one_layout = false;  // all runs are of one thing at the same addresses

  double change() const { return after - before; }
  // The interval holds no change.
  bool is_noise() const {
    return has_ratio ? low <= 1 && high >= 1 && p > 0 : low_change <= 0 && high_change >= 0;
  }
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

// What became of a model in the runs of one side.
struct SideOutcome {
  std::size_t runs = 0, failed = 0;
  ModelStatus status = ModelStatus::ok;  // of the first that failed
  std::string error;

  bool never_came_through() const { return runs > 0 && failed == runs; }
};

// A figure of one side, of a model that the other side has none of.
struct MetricValue {
  const RunMetric* metric = nullptr;
  double value = 0;
};

struct ModelComparison {
  std::string name;                   // in A
  std::string name_after;             // in B: another one where each side has one model, which was renamed
  std::vector<MetricChange> metrics;  // in the order of run_metrics(); what both sides have
  std::vector<const RunMetric*> one_sided;  // what one side has alone
  // That a frame of B takes longer than one of A, of all frames of all runs.
  std::optional<double> superiority;
  std::int64_t frames_before = 0, frames_after = 0;
  SideOutcome outcome_before, outcome_after;
  std::vector<FactChange> facts;          // of the model: file, settings, runtime
  std::vector<LayerChange> shares;        // --layers: kinds of memory, the largest change first
  std::vector<LayerChange> nodes;         // and nodes, by their activations and parameters
  std::vector<MetricValue> values_after;  // of B, where A never came through

  const MetricChange* find(std::string_view metric) const;
  bool is_called(std::string_view called) const { return called == name || called == name_after; }

  // In B it fails in a larger share of the runs than in A, or in a smaller one.
  bool fell() const {
    return outcome_after.failed * outcome_before.runs > outcome_before.failed * outcome_after.runs;
  }
  bool recovered() const {
    return outcome_after.failed * outcome_before.runs < outcome_before.failed * outcome_after.runs;
  }
  // Nothing of it can be compared.
  bool has_no_figures() const {
    return outcome_before.never_came_through() || outcome_after.never_came_through();
  }
};

struct NewModel {
  std::string name;
  SideOutcome outcome;
  std::vector<MetricValue> values;  // of the runs that it came through
};

struct GoneModel {
  std::string name;
  SideOutcome outcome;  // in A
  // Of several models at once, which B was not asked to measure: "--pipeline". Then it is gone by request.
  std::string option_left_out;

  bool is_worse() const { return option_left_out.empty() && !outcome.never_came_through(); }
};

// "with one run each", "with 1 and 2 runs": how many runs could not tell a time from noise.
std::string words_for_runs(const MetricChange& change);
// "make three or more runs of each side: headroom bench --repeat 8".
inline constexpr std::string_view kMakeMoreRuns =
    "make three or more runs of each side: headroom bench --repeat 8";

struct RunComparison {
  std::vector<ModelComparison> models;
  std::vector<GoneModel> only_before;
  std::vector<NewModel> only_after;
  std::vector<FactChange> facts;     // of the machine and of the run
  std::vector<std::string> caveats;  // why less can be told than one would think
  bool has_mixed_side = false;       // runs of one side are not of one thing; a caveat says in what
};

// Each side has a run. Models are the same by name; where both sides have one model it is the same one.
// `comparisons`: how many of which this is one share the false alarms, as its own models do.
RunComparison compare_runs(const Side& before, const Side& after, std::size_t comparisons = 1);

}  // namespace headroom::comparison
