// The sentences of a comparison of runs, the same in every view.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "comparison/run_comparison.h"
#include "report/comparison/run_diff_views.h"

namespace headroom::report {

// unknown: nothing could be compared, or what differs makes no verdict.
enum class RunDiffTone { worse, mixed, better, same, unknown };

// In JSON, on the terminal and in Markdown.
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
// What limits the comparison, and what differs and says nothing of the program.
std::vector<std::string> notes_of(const comparison::RunComparison& comparison);

// How many pages of files a process has mapped depends on how they came into the page cache: no change of the
// program, however much it is.
bool is_of_page_cache(const comparison::MetricChange& change);
// A time of the model that too few runs cannot tell from noise; null where there is none, or its latency can
// be told, as that of runs in step can.
const comparison::MetricChange* inseparable_latency(const comparison::ModelComparison& model);
// "Latency differences are not separable from noise with one run each".
std::string inseparable_words(const comparison::MetricChange& change);
// "+3.1 % (+2.0 % to +4.2 %)".
std::string interval_words(const comparison::MetricChange& change);
// The same where there is no room: "+3.1 %", "unsteady".
std::string short_change_words(const comparison::MetricChange& change);
// "a frame of B takes longer than one of A in 83 % of pairs"; empty without frames.
std::string superiority_words(const comparison::ModelComparison& model);
// "det is new in B: run_peak 50.0 MiB, latency 2.1 ms."
std::string new_model_words(const comparison::NewModel& model);
// Facts of model and run: "settings: threads=1 … → threads=2 …".
std::vector<std::string> fact_lines(const comparison::RunComparison& comparison);
// Worth a line of a table: a change, what is judged, or a figure that everybody looks for.
bool is_shown(const comparison::MetricChange& change);

}  // namespace headroom::report
