// The lines of the summary that tell what the host's memory of a recording did.
#pragma once

#include <string>

#include "analysis/recording_analysis.h"

namespace headroom::trace {

std::string heap_figures(const recording::RecordingInfo& info, const analysis::RecordingAnalysis& analysis);

}  // namespace headroom::trace
