// Live memory at one moment, by stack, layer, size class and thread.
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
  // Absent if the bytes are exact.
  std::optional<double> standard_error() const { return standard_error_of(variance); }
};

// Memory that the program mapped itself, apart from the heap; exact. Only end_bytes of a share is set.
struct MappedRows {
  std::int64_t bytes = 0;
  std::vector<MappingShare> by_stack, by_layer;  // not empty; the largest first
};

struct LiveRows {
  Nanoseconds time;
  Figure bytes, blocks;            // of all
  std::vector<LiveRow> by_stack;   // [StackId]
  std::vector<LiveRow> by_layer;   // [index of RecordingAnalysis::layers], without inner layers
  std::vector<LiveRow> by_thread;  // [ThreadIndex]
  std::vector<LiveRow> by_class;   // [bits of the size]: 0, 1, 2 to 3, 4 to 7, …
  MappedRows mapped;
  std::vector<DeviceFigures> devices;  // as if the recording had ended then; see end_bytes
};

// The state after the last event at or before `time`. In a recording of samples it is measured by `half` and
// limited to what was allocated by then. Use half B for the peak, which half A chose. One pass, and one more
// for samples.
LiveRows live_rows_at(recording::Recording& recording, Nanoseconds time, SampleHalf half = SampleHalf::both);

}  // namespace headroom::attribution
