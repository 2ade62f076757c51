// What a memory snapshot of PyTorch tells.
#pragma once

#include <string>
#include <vector>

#include "analysis/snapshot_analysis.h"
#include "model/finding.h"
#include "snapshot/snapshot.h"

namespace headroom::doctor {

// Unsorted.
std::vector<Finding> snapshot_findings(const snapshot::Snapshot& snapshot,
                                       const std::vector<analysis::DeviceAnalysis>& devices,
                                       const std::string& file);

}  // namespace headroom::doctor
