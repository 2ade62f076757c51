// The processes of a traced command, and their sums.
#pragma once

#include <string>
#include <string_view>

#include "report/recording/recording_views.h"

namespace headroom::report {

// Words for a recording without host memory.
inline constexpr std::string_view kGpuMemoryOnly = "GPU memory only (--only gpu)";

// The command and its arguments on one line, as people read it (not for a shell).
std::string one_line_command(const recording::RecordingInfo& info);

struct TreeFigures {
  std::int64_t processes = 0;  // with a readable recording
  ProcessFigures sums;         // `peak_bytes` is the sum of the peaks, which may be at different times
};
TreeFigures tree_figures(const RecordingReport& report);

}  // namespace headroom::report
