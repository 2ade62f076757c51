// `headroom report X.pickle --json`: all figures of a memory snapshot. The page has them, too, with places in
// its own way.
#pragma once

#include <functional>
#include <vector>

#include "report/snapshot/snapshot_views.h"

namespace headroom::report {

// Adds to an object what says where: the frames of the stack, or of a place without one how much was asked
// for.
using SetPlace = std::function<void(Json& object, const snapshot::AllocationPlace& place)>;
Json snapshot_document(const SnapshotReport& report, const SetPlace& set_place);

// The segments of a device that `segments_map` has, by address: of more than 2000 the largest.
std::vector<const snapshot::Segment*> segments_shown(const snapshot::Snapshot& snapshot, std::int64_t device);

}  // namespace headroom::report
