// What the views of a comparison share: its sentences, and which rows they show.
#pragma once

#include <string>
#include <vector>

#include "report/recording_diff_views.h"

namespace headroom::report {

// "B peaks 35.2 MiB higher (+12.3 %); 90 % of it is detector/Run/conv1."
std::string diff_verdict(const DiffReport& report);

// Why the two can be compared only in part, or are of different things; a sentence each.
std::vector<std::string> diff_caveats(const DiffReport& report);

// "+1.2 MiB", "-812 B", "0 B".
std::string signed_bytes(std::int64_t bytes);
// "+12.3 %", "0.0 %"; empty where there was nothing before.
std::string signed_percent(std::int64_t before, std::int64_t after);

// "≈ 1.2 MiB" where it was estimated, "≥" and "≤" where it is a bound.
std::string figure_words(const analysis::Figure& figure);

// Rows that changed by `at_least` bytes at the peak or at the end: the `top` of them that changed most, the
// largest growth first.
std::vector<const analysis::DiffRow*> chosen_rows(const std::vector<analysis::DiffRow>& rows,
                                                  std::int64_t at_least, std::size_t top);

std::vector<const analysis::MappedDiffRow*> chosen_rows(const std::vector<analysis::MappedDiffRow>& rows,
                                                        std::int64_t at_least, std::size_t top);

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

}  // namespace headroom::report
