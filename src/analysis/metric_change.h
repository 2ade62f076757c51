// What one metric of one model changed by between the runs of two sides, and whether that is a change or what
// runs of one thing differ by. Pure; docs/diff.md tells the rules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/run_comparison.h"

namespace headroom::analysis {

// One model on one side: the runs that it came through, in the order in which they were made.
struct RunsOfModel {
  std::vector<const ComparedModel*> models;
  std::vector<std::string> started_at;
};

// Absent where a side has not measured it. `models`: how many are compared, as they share the false alarms.
// `undisturbed`: the percentile of "latency".
std::optional<MetricChange> change_of(const RunMetric& metric, const RunsOfModel& before,
                                      const RunsOfModel& after, std::size_t models, double undisturbed);

// The percentile of "latency" at which runs of few frames can be compared with others: kUndisturbed, or where
// the fastest of n frames lies on average, 1 / (n + 1), with the frames of the shortest run.
struct UndisturbedLevel {
  double percentile = kUndisturbed;
  std::size_t fewest = 0;     // 0: no run has any
  bool is_comparable = true;  // false: runs without frames have their figure at another percentile
};
UndisturbedLevel undisturbed_level(const RunsOfModel& before, const RunsOfModel& after);

}  // namespace headroom::analysis
