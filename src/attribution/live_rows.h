// What was live at one moment, by stack, layer, size class and thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "attribution/mapping_ledger.h"
#include "attribution/recording_analysis.h"
#include "recording/recording.h"
#include "types/memory_event.h"

namespace headroom::attribution {

struct LiveRow {
  std::int64_t bytes = 0, blocks = 0;
  double variance = 0;  // of the bytes, as in LiveFigures

  void add(const LiveRow& other);
  // Absent where the bytes are exact.
  std::optional<double> standard_error() const;
};

// What the program had mapped itself, apart from the heap; exact. The bytes of a share are its end_bytes.
struct MappedRows {
  std::int64_t bytes = 0;
  std::vector<MappingShare> by_stack, by_layer;  // without those that had nothing; the largest first
};

struct LiveRows {
  Nanoseconds time;
  Figure bytes, blocks;            // of all
  std::vector<LiveRow> by_stack;   // [StackId]
  std::vector<LiveRow> by_layer;   // [index of RecordingAnalysis::layers], without inner layers
  std::vector<LiveRow> by_thread;  // [ThreadIndex]
  std::vector<LiveRow> by_class;   // [bits of the size]: 0, 1, 2 to 3, 4 to 7, …
  MappedRows mapped;
  std::vector<DeviceFigures>
      devices;  // as if the recording had ended then: of interest is what has end_bytes
};

// The state after the last event at or before `time`; of a recording of samples as `half` tells it, and no
// more than was allocated by then. `half`: half B where the moment is the peak, which half A chose. One pass.
LiveRows live_rows_at(recording::Recording& recording, Nanoseconds time, SampleHalf half = SampleHalf::both);

}  // namespace headroom::attribution
