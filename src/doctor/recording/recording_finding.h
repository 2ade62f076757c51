// Findings in a recording, grouped by subject in this folder's .cpp files.
// To add one: write its function, declare it, and add it to the list below.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/recording/recording_findings.h"

namespace headroom::doctor {

struct RecordingFacts {
  const attribution::RecordingAnalysis& analysis;
  const std::vector<std::int64_t>& grown_by_layer;  // growth_by_layer()
  const std::string& file;
  const PlaceWords& place_words;
};
using RecordingFinding = std::vector<Finding>(const RecordingFacts& facts);

RecordingFinding gpu_limit_refused, heap_fragmentation;  // refused_and_fragmented.cpp
RecordingFinding leaks_of_cycles, leaks_not_judged;      // leaks.cpp
RecordingFinding recording_incomplete;                   // recording_findings.cpp

// In the order of the report among findings of equal severity.
inline constexpr RecordingFinding* kRecordingFindings[] = {
    gpu_limit_refused, leaks_of_cycles, heap_fragmentation, leaks_not_judged, recording_incomplete,
};

}  // namespace headroom::doctor
