// The processes of a traced command, and their sums.
#pragma once

#include <string>
#include <string_view>

#include "report/recording/recording_views.h"

namespace headroom::report {

// What a view of a recording without the host's memory says of it in one line.
inline constexpr std::string_view kGpuMemoryOnly = "GPU memory only (--only gpu)";

// The command and its arguments on one line, as people read it (not for a shell).
std::string one_line_command(const recording::RecordingInfo& info);

struct TreeFigures {
  std::int64_t processes = 0;  // whose recording could be read
  ProcessFigures sums;         // `peak_bytes` is the sum of the peaks, which need not have come at once
};
TreeFigures tree_figures(const RecordingReport& report);

}  // namespace headroom::report
