// What a snapshot of PyTorch's memory tells of a device: a file each, <name>_finding.cpp, and one list,
// snapshot_finding_list.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/snapshot/snapshot_findings.h"

namespace headroom::doctor {

using snapshot::DeviceAnalysis;
using SnapshotFinding = std::optional<Finding> (*)(const snapshot::Snapshot&, const DeviceAnalysis&);

std::optional<Finding> allocation_failed(const snapshot::Snapshot& snapshot, const DeviceAnalysis& device);
std::optional<Finding> leak_of_places(const snapshot::Snapshot& snapshot, const DeviceAnalysis& device);
std::optional<Finding> segment_fragmentation(const snapshot::Snapshot& snapshot,
                                             const DeviceAnalysis& device);

// In the order in which they are looked for.
const std::vector<SnapshotFinding>& snapshot_finding_list();

inline constexpr int kPlaceWidth = 160;
// A place of code on one line.
std::string place_words(const snapshot::Snapshot& snapshot, const DeviceAnalysis& device,
                        snapshot::PlaceIndex place);

}  // namespace headroom::doctor
