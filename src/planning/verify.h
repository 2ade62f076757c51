// Compares a plan with the measurements of a parallel run of `headroom bench` with the same components.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "types/bench_result.h"
#include "types/budget.h"

namespace headroom::planning {

struct VerifiedFigure {
  std::string name;
  Bytes planned, measured;
  // The difference as a share of the measurement; above 0: the plan is higher.
  double relative_difference() const {
    return measured.count == 0
               ? 0
               : static_cast<double>((planned - measured).count) / static_cast<double>(measured.count);
  }
};

struct Verification {
  std::string run;
  std::string source;                      // source of the joint peak: "cgroup_v1", "pss_samples"
  std::vector<VerifiedFigure> components;  // resident memory at the run's peak
  VerifiedFigure joint;
  std::vector<std::string> left_out;  // planned components that are not in the run
  bool is_lower_bound = false;        // the measured joint peak is a lower bound
  bool holds = false;
};

// A plan holds if its joint peak is at most this share of the measurement below or above the measurement.
inline constexpr double kMaxUnder = 0.02, kMaxOver = 0.05;

// Verifies the components that are in the run (by name or model), started all at once as the bench does. All
// needs must be resolved. Usage error: a run without --parallel, or with other models.
Result<Verification> verify_plan(const Budget& budget, const BenchResult& run, const std::string& run_name);

}  // namespace headroom::planning
