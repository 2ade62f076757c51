// The views of a comparison of runs, A (before) and B (after). Pure: from the comparison to text.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "comparison/metric_gate.h"
#include "comparison/run_comparison.h"

namespace headroom::report {

inline constexpr int kRunDiffSchemaVersion = 1;

struct RunDiffReport {
  std::vector<std::string> before, after;  // the runs, as the user named them
  const comparison::RunComparison& comparison;
  std::vector<comparison::GateFinding> gate;        // of --fail-on
  std::string not_judged = {};                      // why a gate cannot tell; empty where it can
  std::size_t top = 5;                              // rows of the tables of layers
  bool is_one_side = false;                         // A and B are the same runs
  std::string before_words = {}, after_words = {};  // what the sides are called; empty: by their runs
};

// One screen, at most `width` columns; the verdict comes first.
std::string run_diff_to_terminal(const RunDiffReport& report, bool color, int width);
// GitHub-flavoured, for a comment on a pull request.
std::string run_diff_to_markdown(const RunDiffReport& report);
Json run_diff_to_json(const RunDiffReport& report);

}  // namespace headroom::report
