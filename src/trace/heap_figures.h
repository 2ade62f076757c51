// The summary's lines about host memory.
#pragma once

#include <string>

#include "analysis/recording_analysis.h"

namespace headroom::trace {

std::string heap_figures(const recording::RecordingInfo& info, const analysis::RecordingAnalysis& analysis);

}  // namespace headroom::trace
