// The change of one metric of one model between two sides, and whether it exceeds the difference between
// identical runs. Pure; docs/diff.md has the rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comparison/run_comparison.h"

namespace headroom::comparison {

// One model on one side: the runs that it came through, in the order in which they were made.
struct RunsOfModel {
  std::vector<const ComparedModel*> models;
  std::vector<std::optional<std::int64_t>> started;  // milliseconds (parse_timestamp())
  // The layout of the heap in each run. At fixed addresses, identical runs have the same one. Empty for a run
  // at random addresses, which has its own.
  std::vector<std::string> layouts;
};

// Absent if a side has not measured it. `comparisons` share the false alarms.
std::optional<MetricChange> change_of(const RunMetric& metric, const RunsOfModel& before,
                                      const RunsOfModel& after, std::size_t comparisons);

bool is_measured(const RunMetric& metric, const RunsOfModel& runs);

// The values of runs that have no other side: the median for memory of three or more runs, else the mean.
std::vector<MetricValue> values_of_side(const RunsOfModel& runs);

// Whether the metric is the same percentile in all runs. With too few frames it is the slowest or fastest
// frame, which depends on the number of frames. True for metrics that are no percentile.
bool is_same_percentile(const RunMetric& metric, const RunsOfModel& before, const RunsOfModel& after);

}  // namespace headroom::comparison
