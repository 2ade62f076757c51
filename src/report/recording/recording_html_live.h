// What was live, as the page reads it: stacks that share their outer functions as one tree, names once.
#pragma once

#include <vector>

#include "report/recording/recording_html_moments.h"
#include "report/recording/recording_views.h"

namespace headroom::report {

// {"frames": [name], "stacks": {"frame": [], "parent": []}, "layers": {"name": [], "parent": []},
//  "moments": [{"time_ns", "until_ns", "bytes", "blocks", "stack": [], "stack_bytes": [], "other_bytes",
//               "layer": [], "layer_bytes": [], "other_layers_bytes"}], "shares": live_shares_json()}
// Node 0 of `stacks` and of `layers` is the root. web/src/recording/data.ts describes the keys.
Json live_moments_json(const RecordingReport& report, const std::vector<attribution::LiveMoment>& moments);

// [{"time_ns", …, "cell_bytes", "extents": [{"address", "bytes", "cells"}], "blocker"}]: a letter a cell, of
// base64's alphabet, from A (free) to / (live throughout).
Json heap_maps_json(const RecordingReport& report, const std::vector<HeapMap>& maps);

}  // namespace headroom::report
