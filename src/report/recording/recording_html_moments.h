// The page's data beyond the analysis: live memory at moments spread over the recording, and maps of the heap
// at some of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attribution/heap_fragmentation.h"
#include "attribution/recording_analysis.h"
#include "recording/recording.h"

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

}  // namespace headroom::report
