// The comparison of two recordings as text and JSON, and its gate. Pure. docs/diff.md explains the figures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "comparison/gate.h"
#include "comparison/recording_diff.h"
#include "report/comparison/diff_words.h"
#include "report/recording/recording_views.h"

namespace headroom::report {

inline constexpr int kRecordingDiffSchemaVersion = 1;

struct DiffSide {
  std::string file;  // as the user named it
  const recording::RecordingInfo& info;
  const comparison::GroupedRecording& recording;
  std::vector<ProcessFigures> others;  // of the tree, the largest peak first
};

struct DiffChoice {
  std::optional<comparison::DiffBy> by = {};  // absent: what fits one screen, or in JSON and CSV all
  std::optional<std::size_t> top = {};        // rows of each table
  std::optional<std::int64_t> at_least = {};  // bytes that a row changed by, at the peak or at the end
  bool add_others = false;                    // show the sums over the trees as well
};

struct DiffReport {
  DiffSide before, after;
  const comparison::RecordingDiff& diff;
  DiffChoice choice;
  std::vector<comparison::GateFinding> gate = {};  // of --fail-on and --fail-above
  std::string not_judged = {};                     // why a gate cannot tell; empty where it can
  bool is_one_recording = false;                   // A and B are the same file
};

// One screen of at most `width` columns.
std::string diff_to_terminal(const DiffReport& report, bool color, int width);
std::string diff_to_markdown(const DiffReport& report);
Json diff_to_json(const DiffReport& report);
// A row for each layer, stack and module.
std::string diff_to_csv(const DiffReport& report);

// The sums of the peaks of all processes.
struct PeakSums {
  std::int64_t before = 0, after = 0;
};
PeakSums sums_of_peaks(const DiffReport& report);

// "B (b.hrec) is incomplete: the process did not end its recording itself: it was killed, or is still
// running": the peak is a minimum. Empty if both are complete. Other processes count with `add_others`.
std::string incomplete_words(const DiffReport& report);

// Other processes, paired by command, then by program. One of the two is null if the other side has no such
// process. The largest growth first.
struct ProcessPair {
  const ProcessFigures *before = nullptr, *after = nullptr;
  std::int64_t peak_change() const {
    return (after != nullptr ? after->peak_bytes : 0) - (before != nullptr ? before->peak_bytes : 0);
  }
};
std::vector<ProcessPair> paired_processes(const DiffReport& report);

// "B peaks 35.2 MiB higher (+12.3 %); 90 % of it is detector/Run/conv1."
std::string diff_verdict(const DiffReport& report);

// Limits of the comparison, a sentence each.
std::vector<std::string> diff_caveats(const DiffReport& report);

// "+12.3 %"; empty if A is zero.
std::string signed_percent(std::int64_t before, std::int64_t after);

// Name, "≈ 1.2 MiB" of A and of B ("≥" and "≤" for a bound), "+1.2 MiB", "+12.3 %".
std::vector<std::string> figure_cells(std::string_view name, const comparison::FigureChange& figure);

// The `top` rows that changed most, by `at_least` bytes at the peak or at the end; the largest growth
// first.
std::vector<const comparison::DiffRow*> chosen_rows(const std::vector<comparison::DiffRow>& rows,
                                                    std::int64_t at_least, std::size_t top);

// The figures for --fail-on, without values.
std::vector<comparison::GatedFigure> gated_recording_figures();

// Checks the rules, and adds the findings to the report. If A and B are the same, only rules on B's own
// values are checked.
comparison::GateJudgement judge_recordings(DiffReport& report, std::vector<comparison::FigureRule> rules);

}  // namespace headroom::report
