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

// " ± 0.4 MiB   " behind the bytes of a row, 12 columns wide; blank where they are exact.
std::string error_column(std::optional<double> standard_error);

// "12.3 MiB", and for an estimate "≈ 12.3 MiB ± 0.4 MiB"; of little "at most 78.4 KiB"; of a ring that was
// overwritten "at least 12.3 MiB".
std::string words_for(const attribution::Figure& bytes);
// What goes behind such a sentence; empty where all blocks are counted.
std::string_view words_for_older_blocks(const attribution::Figure& bytes);
// "1 block", "≈ 1,234 blocks".
std::string words_for_count(const attribution::Figure& count, std::string_view noun);

// What would have kept events from being dropped, by the bound that was met: "record with a larger
// --max-size".
std::string cure_for_drops(const recording::RecordingInfo& info);

// Why the peak is told to be below what is live at the end, which the truth never is: in samples each is an
// estimate of its own. Empty where it is not below.
std::string words_for_end_above_peak(const attribution::RecordingAnalysis& analysis);

// Why a full recording has no fragmentation, without a full stop. Empty where it has, and of samples.
std::string words_for_no_fragmentation(const recording::RecordingInfo& info);

// Why a recording is not whole, each without a full stop; empty for a whole one.
std::vector<std::string> problems_of(const recording::RecordingInfo& info,
                                     const attribution::RecordingAnalysis& analysis);
// What the recording does not hold, a sentence each, for a screen that tells how the process ended by itself.
std::vector<std::string> missing_parts(const recording::RecordingInfo& info,
                                       const attribution::RecordingAnalysis& analysis);
// What is known of that without an analysis, once all events were read.
std::vector<std::string> missing_parts(const recording::Recording& recording);

}  // namespace headroom::report
