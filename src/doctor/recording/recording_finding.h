// What a recording tells: a file each, <name>_finding.cpp, and one list, recording_finding_list.cpp.
#pragma once

#include <cstdint>
#include <optional>
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
using RecordingFinding = std::vector<Finding> (*)(const RecordingFacts&);

std::vector<Finding> gpu_limit_refused(const RecordingFacts& facts);
std::vector<Finding> heap_fragmentation(const RecordingFacts& facts);
std::vector<Finding> leaks_of_cycles(const RecordingFacts& facts);
std::vector<Finding> leaks_not_judged(const RecordingFacts& facts);
std::vector<Finding> recording_incomplete(const RecordingFacts& facts);
// Instead of leaks_not_judged(), where the memory of the whole program grows.
std::optional<Finding> steady_growth(const RecordingFacts& facts);

// In the order in which they are looked for.
const std::vector<RecordingFinding>& recording_finding_list();

}  // namespace headroom::doctor
