// The views of a PyTorch memory snapshot: places that hold memory, leaks, fragmentation, failed allocations.
// Pure: from an analysis to text. docs/pytorch-snapshots.md explains each figure.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "snapshot/snapshot.h"
#include "snapshot/snapshot_analysis.h"

namespace headroom::report {

inline constexpr int kSnapshotReportSchemaVersion = 1;

struct SnapshotReport {
  std::string file;  // as the user named it
  const snapshot::Snapshot& snapshot;
  const std::vector<snapshot::DeviceAnalysis>& devices;
};

// One screen, at most `width` columns.
std::string snapshot_to_terminal(const SnapshotReport& report, bool color, int width);
Json snapshot_to_json(const SnapshotReport& report);

}  // namespace headroom::report
