// Findings in a recording of headroom trace.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "attribution/recording_analysis.h"
#include "recording/recording.h"
#include "types/finding.h"

namespace headroom::doctor {

// For each layer of the analysis: the growth of its live memory from half-way to the end, without the layers
// inside it. It takes one more pass, so the result is empty unless the recording has a leak.
std::vector<std::int64_t> growth_by_layer(recording::Recording& recording,
                                          const attribution::RecordingAnalysis& analysis);

// Describes a call stack on one line.
using PlaceWords = std::function<std::string(StackId stack)>;

// `grown`: growth_by_layer(), or empty. Without `place_words`, findings have no call stacks as evidence.
// Unsorted.
std::vector<Finding> recording_findings(const attribution::RecordingAnalysis& analysis,
                                        const std::vector<std::int64_t>& grown, const std::string& file,
                                        const PlaceWords& place_words = {});

}  // namespace headroom::doctor
