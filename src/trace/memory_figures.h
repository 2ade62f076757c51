// The lines of the summary that tell what the memory of a recording did: the host's and that of GPUs.
#pragma once

#include <string>

#include "analysis/recording_analysis.h"

namespace headroom::trace {

std::string memory_figures(const recording::RecordingInfo& info, const analysis::RecordingAnalysis& analysis);

}  // namespace headroom::trace
