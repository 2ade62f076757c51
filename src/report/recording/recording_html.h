// `headroom report FILE.hrec --html`: the recording as one page, with live memory at moments spread over it.
// The size of the page depends on its stacks and layers, not on the events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attribution/heap_fragmentation.h"
#include "attribution/recording_analysis.h"
#include "base/json.h"
#include "base/result.h"
#include "recording/recording.h"
#include "report/recording/recording_views.h"

namespace headroom::report {

// Neighbouring blocks and the holes between them, cut into cells of equal size.
struct HeapExtent {
  std::uint64_t address = 0, bytes = 0;
  std::vector<std::uint64_t> live_bytes;  // of each cell, with headers and rounding
};

struct HeapMap {
  attribution::FragmentationMoment figures;
  std::uint64_t cell_bytes = 0;
  std::vector<HeapExtent> extents;  // by address
};

struct PageMoments {
  // Ascending, with the peak and the end; none if host memory was not recorded.
  std::vector<attribution::LiveMoment> live;
  std::vector<HeapMap> heaps;  // ascending; full recordings only
};

// Reads the events twice more, those of a sampled recording three times. The time is cut into equal periods,
// and each gives the moment with the most live memory. Each long period without events gives one more moment.
PageMoments take_page_moments(recording::Recording& recording,
                              const attribution::RecordingAnalysis& analysis);

// The map of a set of live blocks at one moment.
HeapMap map_of_heap(std::vector<attribution::LiveBlock> blocks, Nanoseconds time,
                    const attribution::HeapLayout& layout = {});

// `moments` are those of take_page_moments() for the recording of `report`.
std::string recording_to_html(const RecordingReport& report, const PageMoments& moments);

// What was live, as the page reads it: stacks that share their outer functions as one tree, names once.
// {"frames": [name], "stacks": {"frame": [], "parent": []}, "layers": {"name": [], "parent": []},
//  "moments": [{"time_ns", "until_ns", "bytes", "blocks", "stack": [], "stack_bytes": [], "other_bytes",
//               "layer": [], "layer_bytes": [], "other_layers_bytes"}], "shares": live_shares_json()}
// Node 0 of `stacks` and of `layers` is the root. web/src/recording/data.ts describes the keys.
Json live_moments_json(const RecordingReport& report, const std::vector<attribution::LiveMoment>& moments);

}  // namespace headroom::report
