// Words that the views of a recording and those of a comparison share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attribution/recording_analysis.h"
#include "recording/recording.h"

namespace headroom::report {

// 20123456 → "20,123,456".
std::string grouped(std::int64_t count);

// " ± 0.4 MiB   " after the bytes of a row, 12 columns wide; blank for an exact figure.
std::string error_column(std::optional<double> standard_error);

// "12.3 MiB"; for an estimate "≈ 12.3 MiB ± 0.4 MiB", for a small one "at most 78.4 KiB"; for an overwritten
// ring "at least 12.3 MiB".
std::string words_for(const attribution::Figure& bytes);
// The end of such a sentence; empty if all blocks are counted.
std::string_view words_for_older_blocks(const attribution::Figure& bytes);
// "1 block", "≈ 1,234 blocks".
std::string words_for_count(const attribution::Figure& count, std::string_view noun);

// How to avoid dropped events, by the limit that was reached: "record with a larger --max-size".
std::string cure_for_drops(const recording::RecordingInfo& info);

// Explains a peak below the memory live at the end. In a sampled recording the two are separate estimates, so
// this can happen. Empty if the peak is not below.
std::string words_for_end_above_peak(const attribution::RecordingAnalysis& analysis);

// Why a full recording has no figures of fragmentation, without a full stop. Empty if it has, and for a
// sampled recording.
std::string words_for_no_fragmentation(const recording::RecordingInfo& info);

// Why a recording is incomplete, each without a full stop; empty for a complete one.
std::vector<std::string> problems_of(const recording::RecordingInfo& info,
                                     const attribution::RecordingAnalysis& analysis);
// Sentences about missing data, for a screen that already says how the process ended.
std::vector<std::string> missing_parts(const recording::RecordingInfo& info,
                                       const attribution::RecordingAnalysis& analysis);
// The same without an analysis, after all events were read.
std::vector<std::string> missing_parts(const recording::Recording& recording);

}  // namespace headroom::report
