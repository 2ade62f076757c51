// Compares the runs of side A (before) with those of side B (after), model by model. Pure. docs/diff.md says
// what counts as a change and why. Only successful runs have figures.
//
// Memory: three or more runs per side are compared by their medians, fewer by an allowance for the difference
// between identical runs.
//
// Times and rates depend on the load of the machine. Three or more runs per side have a bootstrap interval;
// alternating ones and those in step are compared in pairs. Fewer have none.
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
  std::vector<FrameTimes> frames;      // empty if the run kept none
  std::string fingerprint;             // of its files; empty if unknown
  std::optional<double> latency = {};  // of a run without frames (headroom history)

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
  // For several runs the median (memory) or the geometric mean of the middle half. For pairs, `after` is
  // `before` times their ratio.
  double before = 0, after = 0;
  std::size_t runs_before = 0, runs_after = 0;
  // False if a value is 0 or less (detections, memory over the bare runtime): then only the difference has an
  // interval.
  bool has_ratio = true;
  // after / before, and its interval.
  double ratio = 1, low = 1, high = 1;
  double low_change = 0, high_change = 0;
  double confidence = 0.95;          // of the interval
  double p = 1;                      // probability of such a difference without a change
  bool spread_was_measured = false;  // by the runs; else an allowance
  bool was_paired = false;           // alternating runs, in pairs
  bool was_in_step = false;          // frame by frame
  bool is_separable = true;          // false: a time, with too few runs for an interval
  bool is_judged = false;            // it decides the verdict
  bool differs = false;              // it is a change, not noise between runs
  // Not a change because it may be pages of files, of which B has this much more.
  bool is_of_file_pages = false;
  double file_pages = 0;
  bool is_of_step = false;      // not a change because it may be a step of the heap
  bool has_one_layout = false;  // all runs are identical, at the same addresses

  double change() const { return after - before; }
  // The interval holds no change.
  bool is_noise() const {
    return has_ratio ? low <= 1 && high >= 1 && p > 0 : low_change <= 0 && high_change >= 0;
  }
  bool is_worse() const { return metric->more_is_better ? after < before : after > before; }
};

// A difference between the sides: "model file", "a1b2…", "c3d4…".
struct FactChange {
  std::string what, before, after;
};

struct LayerChange {
  std::string name;
  std::optional<Bytes> before, after;
  std::int64_t change() const { return after.value_or(Bytes{}).count - before.value_or(Bytes{}).count; }
};

// The success of a model in the runs of one side.
struct SideOutcome {
  std::size_t runs = 0, failed = 0;
  ModelStatus status = ModelStatus::ok;  // of the first that failed
  std::string error;

  bool never_came_through() const { return runs > 0 && failed == runs; }
};

// A figure of a model that only one side has.
struct MetricValue {
  const RunMetric* metric = nullptr;
  double value = 0;
};

struct ModelComparison {
  std::string name;                         // in A
  std::string name_after;                   // in B: differs if each side has one model, and it was renamed
  std::vector<MetricChange> metrics;        // that both sides have, in the order of run_metrics()
  std::vector<const RunMetric*> one_sided;  // metrics that only one side has
  std::optional<double> superiority;        // share of the pairs of frames in which B's takes longer
  std::int64_t frames_before = 0, frames_after = 0;
  SideOutcome outcome_before, outcome_after;
  std::vector<FactChange> facts;          // of the model: file, settings, runtime
  std::vector<LayerChange> shares;        // --layers: kinds of memory, the largest change first
  std::vector<LayerChange> nodes;         // and nodes, by their activations and parameters
  std::vector<MetricValue> values_after;  // of B, if A never succeeded

  const MetricChange* find(std::string_view metric) const;
  bool is_called(std::string_view called) const { return called == name || called == name_after; }

  // In B a larger share of the runs fails than in A, or a smaller one.
  bool fell() const {
    return outcome_after.failed * outcome_before.runs > outcome_before.failed * outcome_after.runs;
  }
  bool recovered() const {
    return outcome_after.failed * outcome_before.runs < outcome_before.failed * outcome_after.runs;
  }
  bool has_no_figures() const {
    return outcome_before.never_came_through() || outcome_after.never_came_through();
  }
};

struct NewModel {
  std::string name;
  SideOutcome outcome;
  std::vector<MetricValue> values;  // of the successful runs
};

struct GoneModel {
  std::string name;
  SideOutcome outcome;  // in A

  bool is_worse() const { return !outcome.never_came_through(); }
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
  std::vector<std::string> caveats;  // limits of the comparison
  bool has_mixed_side = false;       // runs of one side differ in their setup; a caveat says how
};

// Each side has a run. Models are paired by name; single models always pair. `comparisons`: the number of
// comparisons that share the false alarms; its models share them as well.
RunComparison compare_runs(const Side& before, const Side& after, std::size_t comparisons = 1);

// What run_facts.cpp finds for compare_runs(): the differences that can explain a change, the likeliest cause
// first. For several runs the most frequent value counts, or the median of a clock, load or temperature.
std::vector<FactChange> model_facts(const std::vector<const ComparedModel*>& before,
                                    const std::vector<const ComparedModel*>& after);
std::vector<FactChange> run_facts(const Side& before, const Side& after);
// Differences between the runs of one side: "board is Orin Nano in 9 of 10 runs, but Xavier NX in another".
std::vector<std::string> mixed_model_facts(const std::vector<const ComparedModel*>& models);
std::vector<std::string> mixed_run_facts(const Side& side);

}  // namespace headroom::comparison
