// What a recording of headroom trace tells.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "attribution/recording_analysis.h"
#include "recording/recording.h"
#include "types/finding.h"

namespace headroom::doctor {

// By layer of the analysis, what it holds more at the end than half-way, without the layers inside it: one
// more pass, and only where something leaks. Empty otherwise.
std::vector<std::int64_t> growth_by_layer(recording::Recording& recording,
                                          const attribution::RecordingAnalysis& analysis);

// A stack in words, on one line.
using PlaceWords = std::function<std::string(StackId stack)>;

// `grown`: growth_by_layer(), or nothing. Without `place_words` a leak's places are not in its evidence.
// Unsorted.
std::vector<Finding> recording_findings(const attribution::RecordingAnalysis& analysis,
                                        const std::vector<std::int64_t>& grown, const std::string& file,
                                        const PlaceWords& place_words = {});

}  // namespace headroom::doctor
