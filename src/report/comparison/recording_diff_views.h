// The views of a comparison of two recordings, A (before) and B (after). Pure: from the comparison to text.
// docs/diff.md says what each figure means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "comparison/figure_gate.h"
#include "comparison/recording_diff.h"
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

// One screen, at most `width` columns; the verdict comes first.
std::string diff_to_terminal(const DiffReport& report, bool color, int width);
// For a pull request's comment.
std::string diff_to_markdown(const DiffReport& report);
Json diff_to_json(const DiffReport& report);
// A row for each layer, stack and module.
std::string diff_to_csv(const DiffReport& report);

// What --fail-above measures: the peaks, or with `add_others` the sums of the peaks over the trees.
struct PeakPair {
  std::int64_t before = 0, after = 0;
  double standard_error = 0;  // of the difference; 0: both are exact

  std::int64_t growth() const { return after - before; }
  // As FigureChange::differs(): less than two standard errors is no news.
  double noise() const { return 2 * standard_error; }
};
PeakPair compared_peaks(const DiffReport& report);

// Why a side is a part of what there was, so that its peak is the least that it can be: "B (b.hrec) is
// incomplete: the process did not end its recording itself: it was killed, or is still running". Empty where
// neither is. Other processes of the trees count with `add_others`.
std::string incomplete_words(const DiffReport& report);

// Processes of the two trees that ran the same command or, of the rest, the same program: the first with the
// first and so on. One of the two is null where the other tree has no such process. The largest growth of the
// peak first.
struct ProcessPair {
  const ProcessFigures *before = nullptr, *after = nullptr;
  std::int64_t peak_change() const {
    return (after != nullptr ? after->peak_bytes : 0) - (before != nullptr ? before->peak_bytes : 0);
  }
};
std::vector<ProcessPair> paired_processes(const DiffReport& report);
// "python3 detector.py peaks 4.0 MiB higher (10.7 MiB to 14.7 MiB)".
std::string peak_words(const ProcessPair& pair);

}  // namespace headroom::report
