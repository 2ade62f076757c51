// What one metric of one model changed by between the runs of two sides, and whether that is a change or what
// runs of one thing differ by. Pure; docs/diff.md tells the rules.
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
  // Of the heap in each run: at fixed addresses the same one in each run of one thing by one build of the
  // program; empty of a run at random ones, which has a layout of its own.
  std::vector<std::string> layouts;
};

// Absent where a side has not measured it. `comparisons`: how many, this one with them, share the false
// alarms.
std::optional<MetricChange> change_of(const RunMetric& metric, const RunsOfModel& before,
                                      const RunsOfModel& after, std::size_t comparisons);

// Whether a run has a value of it.
bool is_measured(const RunMetric& metric, const RunsOfModel& runs);

// Of runs that have nothing to be compared with: of memory of three and more the median, else the mean.
std::vector<MetricValue> values_of_side(const RunsOfModel& runs);

// Whether the percentile of the frames is the same one in all runs: of fewer frames than it has parts it is
// the slowest or the fastest frame, which is slower or faster the more frames there are. Also of what is no
// percentile.
bool is_same_percentile(const RunMetric& metric, const RunsOfModel& before, const RunsOfModel& after);

}  // namespace headroom::comparison
