#include "doctor/snapshot/snapshot_findings.h"

#include <utility>

#include "doctor/snapshot/snapshot_finding.h"
#include "report/snapshot/snapshot_words.h"

namespace headroom::doctor {

std::string place_words(const snapshot::Snapshot& snapshot, const DeviceAnalysis& device,
                        snapshot::PlaceIndex place) {
  return report::one_line_place(snapshot, device.places[place], kPlaceWidth);
}

std::vector<Finding> snapshot_findings(const snapshot::Snapshot& snapshot,
                                       const std::vector<DeviceAnalysis>& devices, const std::string& file) {
  std::vector<Finding> findings;
  for (const DeviceAnalysis& device : devices)
    for (const SnapshotFinding look_for : snapshot_finding_list())
      if (std::optional<Finding> found = look_for(snapshot, device)) findings.push_back(std::move(*found));
  for (Finding& finding : findings) {
    if (finding.evidence.empty()) finding.evidence.push_back({});
    for (Evidence& evidence : finding.evidence) evidence.file = file;
  }
  return findings;
}

}  // namespace headroom::doctor
