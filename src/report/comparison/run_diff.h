// The comparison of runs as text and JSON. Pure, except what reads loaded sides.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "comparison/gate.h"
#include "comparison/run_comparison.h"

namespace headroom::report {

inline constexpr int kRunDiffSchemaVersion = 1;

struct LoadedSide;  // report/input/run_input.h

struct RunDiffReport {
  std::vector<std::string> before, after;  // the runs, as the user named them
  comparison::RunComparison comparison;
  std::vector<comparison::GateFinding> gate = {};   // of --fail-on
  std::string not_judged = {};                      // why a gate cannot tell; empty where it can
  std::size_t top = 5;                              // rows of the tables of layers
  bool is_one_side = false;                         // A and B are the same runs
  std::string before_words = {}, after_words = {};  // what the sides are called; empty: by their runs
};

// What a history says about the sides. Empty strings are left out.
struct HistoryWords {
  std::string before, after;  // what the views call them; else by the names of their runs
  std::string caveat;
};

// Compares two loaded sides, and notes what was skipped in them and which runs both have.
RunDiffReport diff_runs(const LoadedSide& before, const LoadedSide& after, const HistoryWords& history);
// Checks --fail-on, and adds its findings to the report. If both sides are the same runs, only rules on B's
// own values are checked.
comparison::GateJudgement judge_runs(RunDiffReport& report, std::vector<comparison::GateRule> rules);
// What was skipped in a folder of runs; empty if nothing was.
std::string left_out_words(const LoadedSide& side);

// One screen of at most `width` columns.
std::string run_diff_to_terminal(const RunDiffReport& report, bool color, int width);
// For a comment on a pull request.
std::string run_diff_to_markdown(const RunDiffReport& report);
Json run_diff_to_json(const RunDiffReport& report);

// unknown: nothing could be compared, or the differences decide no verdict.
enum class RunDiffTone { worse, mixed, better, same, unknown };

struct RunDiffLook {
  std::string_view name, paint, symbol;
};
RunDiffLook look_of(RunDiffTone tone);

struct RunDiffVerdict {
  RunDiffTone tone = RunDiffTone::same;
  std::string sentence;  // what changed
  std::string cause;     // what the runs record that could explain it
};

RunDiffVerdict verdict_of(const RunDiffReport& report);
// The caveats, and differences that do not count.
std::vector<std::string> notes_of(const comparison::RunComparison& comparison);

// The page cache decides how many pages of files are mapped, so their number never counts as a change.
bool is_of_page_cache(const comparison::MetricChange& change);
// A time of the model with too few runs. Null if there is none, or if latency was compared in step.
const comparison::MetricChange* inseparable_latency(const comparison::ModelComparison& model);
// "Latency differences are not separable from noise with one run each".
std::string inseparable_words(const comparison::MetricChange& change);
// "+1.6 MiB", "-2.000 ms".
std::string signed_words(const comparison::RunMetric& metric, double value);
// Facts of model and run: "settings: threads=1 … → threads=2 …".
std::vector<std::string> fact_lines(const comparison::RunComparison& comparison);

}  // namespace headroom::report
