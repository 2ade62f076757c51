// What the views of a comparison share: its sentences, and which rows they show.
#pragma once

#include <string>
#include <vector>

#include "report/comparison/diff_words.h"
#include "report/comparison/recording_diff_views.h"

namespace headroom::report {

// "B peaks 35.2 MiB higher (+12.3 %); 90 % of it is detector/Run/conv1."
std::string diff_verdict(const DiffReport& report);

// Why the two can be compared only in part, or are of different things; a sentence each.
std::vector<std::string> diff_caveats(const DiffReport& report);

// "+12.3 %", "0.0 %"; empty where there was nothing before.
std::string signed_percent(std::int64_t before, std::int64_t after);

// "≈ 1.2 MiB" where it was estimated, "≥" and "≤" where it is a bound.
std::string figure_words(const attribution::Figure& figure);

// Rows that changed by `at_least` bytes at the peak or at the end: the `top` of them that changed most, the
// largest growth first.
std::vector<const comparison::DiffRow*> chosen_rows(const std::vector<comparison::DiffRow>& rows,
                                                    std::int64_t at_least, std::size_t top);

std::vector<const comparison::MappedDiffRow*> chosen_rows(const std::vector<comparison::MappedDiffRow>& rows,
                                                          std::int64_t at_least, std::size_t top);

}  // namespace headroom::report
