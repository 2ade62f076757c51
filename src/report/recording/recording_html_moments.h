// What the page shows beyond the analysis: who held the memory at moments spread over the recording, and
// which parts of the heap were live then.
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
  // Ascending, among them the peak and the end; none where the host's memory was not recorded.
  std::vector<attribution::LiveMoment> live;
  std::vector<HeapMap> heaps;  // ascending; of full recordings only
};

// Two more passes over the events, of samples three. The time is cut into equal stretches, and each gives its
// fullest moment; each time in which nothing happened for long gives what was live then.
PageMoments take_page_moments(recording::Recording& recording,
                              const attribution::RecordingAnalysis& analysis);

// The map of one moment, of any set of live blocks.
HeapMap map_of_heap(std::vector<attribution::LiveBlock> blocks, Nanoseconds time,
                    const attribution::HeapLayout& layout = {});

}  // namespace headroom::report
