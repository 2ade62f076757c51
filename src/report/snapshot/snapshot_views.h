// The views of a PyTorch memory snapshot: places that hold memory, leaks, fragmentation, failed allocations.
// Pure: from an analysis to text. docs/pytorch-snapshots.md explains each figure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
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

// What was live at the moments of the analysis, by place. To be filled while the analysis runs:
//   SnapshotLive live;
//   analyze_snapshot(snapshot, live.options())
class SnapshotLive {
 public:
  // Live bytes of the places that held most, most first.
  struct Moment {
    std::int64_t bytes = 0, blocks = 0;  // of all places
    std::vector<snapshot::PlaceShare> places;
  };
  // Of each device, one for each of DeviceAnalysis::moments.
  const std::vector<Moment>& of(std::int64_t device) const;
  // Of an analysis for the page; they must not outlive this.
  snapshot::SnapshotOptions options();

 private:
  std::map<std::int64_t, std::vector<Moment>> moments_;
};

// One page. Its size depends on the places and segments, not on the entries of the trace.
std::string snapshot_to_html(const SnapshotReport& report, const SnapshotLive& live);

}  // namespace headroom::report
