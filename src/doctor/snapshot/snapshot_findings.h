// Findings in a memory snapshot of PyTorch.
#pragma once

#include <string>
#include <vector>

#include "snapshot/snapshot.h"
#include "snapshot/snapshot_analysis.h"
#include "types/finding.h"

namespace headroom::doctor {

// Unsorted.
std::vector<Finding> snapshot_findings(const snapshot::Snapshot& snapshot,
                                       const std::vector<snapshot::DeviceAnalysis>& devices,
                                       const std::string& file);

}  // namespace headroom::doctor
