// The summary's lines about host memory.
#pragma once

#include <string>

#include "attribution/recording_analysis.h"

namespace headroom::trace {

std::string heap_figures(const recording::RecordingInfo& info,
                         const attribution::RecordingAnalysis& analysis);

}  // namespace headroom::trace
