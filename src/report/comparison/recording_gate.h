// --fail-on and --fail-above for a comparison of two recordings. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "comparison/figure_gate.h"
#include "report/comparison/recording_diff_views.h"

namespace headroom::report {

// What --fail-above allows: bytes, or a share of A's peak.
struct PeakLimit {
  std::string text;  // as it was given
  std::optional<Bytes> bytes;
  double percent = 0;

  // Of the peaks; the largest that is allowed.
  double allowed_growth(std::int64_t before) const {
    return bytes ? static_cast<double>(bytes->count) : static_cast<double>(before) * percent / 100;
  }
};

// "10MiB", "5%".
Result<PeakLimit> parse_peak_limit(std::string_view text);

// The figures that --fail-on takes of recordings, without values.
std::vector<comparison::GatedFigure> gated_recording_figures();

// What is beyond its limit; puts it into the report, too. Of a recording that is compared with itself only
// its own values are judged.
comparison::GateJudgement judge_recordings(DiffReport& report, std::vector<comparison::FigureRule> rules,
                                           std::optional<PeakLimit> limit);

}  // namespace headroom::report
