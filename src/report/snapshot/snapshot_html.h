// `headroom report X.pickle --html`: a memory snapshot as one page. Its size depends on the places and
// segments, not on the entries of the trace. docs/pytorch-snapshots.md describes its content.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "report/snapshot/snapshot_views.h"

namespace headroom::report {

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

std::string snapshot_to_html(const SnapshotReport& report, const SnapshotLive& live);

}  // namespace headroom::report
