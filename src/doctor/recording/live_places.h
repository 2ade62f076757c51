// The places of most of what was live at a recording's end, or at its peak.
#pragma once

#include <vector>

#include "doctor/recording/recording_findings.h"
#include "types/finding.h"

namespace headroom::doctor {

enum class LiveAt { end, peak };

// Three at most; none without words for them.
std::vector<Evidence> live_places(const attribution::RecordingAnalysis& analysis,
                                  const PlaceWords& place_words, LiveAt at);

}  // namespace headroom::doctor
