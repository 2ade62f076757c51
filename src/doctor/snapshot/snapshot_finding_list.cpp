#include "doctor/snapshot/snapshot_finding.h"

namespace headroom::doctor {

const std::vector<SnapshotFinding>& snapshot_finding_list() {
  static const std::vector<SnapshotFinding> kFindings{
      allocation_failed,
      leak_of_places,
      segment_fragmentation,
  };
  return kFindings;
}

}  // namespace headroom::doctor
