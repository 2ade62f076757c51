// The summary's lines about host and GPU memory.
#pragma once

#include <string>

#include "attribution/recording_analysis.h"

namespace headroom::trace {

std::string memory_figures(const recording::RecordingInfo& info,
                           const attribution::RecordingAnalysis& analysis);

}  // namespace headroom::trace
