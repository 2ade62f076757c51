#include "doctor/recording/recording_finding.h"

namespace headroom::doctor {

const std::vector<RecordingFinding>& recording_finding_list() {
  static const std::vector<RecordingFinding> kFindings{
      gpu_limit_refused, leaks_of_cycles, heap_fragmentation, leaks_not_judged, recording_incomplete,
  };
  return kFindings;
}

}  // namespace headroom::doctor
