// A plan against what a parallel bench of the same components really took.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/bench_result.h"
#include "model/budget.h"

namespace headroom::planning {

struct VerifiedFigure {
  std::string name;
  Bytes planned, measured;
  double off() const {  // above 0: the plan said more than it took
    return measured.count == 0
               ? 0
               : static_cast<double>((planned - measured).count) / static_cast<double>(measured.count);
  }
};

struct Verification {
  std::string run;
  std::string source;                      // of the joint peak: "cgroup_v1", "pss_samples"
  std::vector<VerifiedFigure> components;  // resident at the run's peak
  VerifiedFigure joint;
  std::vector<std::string> left_out;  // planned, and not in the run
  bool is_lower_bound = false;        // of the measured joint peak
  bool holds = false;
};

inline constexpr double kMostUnder = 0.02, kMostOff = 0.05;

// Of the components that are in the run, by name or by model, as the bench starts them: all at once. Needs
// must be known. Usage error: a run without --parallel, or of other models.
Result<Verification> verify_plan(const Budget& budget, const BenchResult& run, const std::string& run_name);

}  // namespace headroom::planning
