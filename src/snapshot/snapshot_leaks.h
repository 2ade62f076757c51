// Leaks, by what never goes away while a trace runs.
//
// A trace knows no cycles, but a loop shows in it all the same: what belongs to one iteration comes and goes.
// So the trace is cut into windows of equally many entries, and of each window the least that a place held is
// taken, its floor: what comes and goes is not in it, if a window holds an iteration or more. Floors that
// grow window by window are judged as the ends of cycles are in a recording (cycle_leaks.h): the first third
// is warm-up (weights, caches), and what grows after it must grow on and on.
//
// A trace of less than a few iterations (one forward pass that keeps its activations) looks like a leak. So a
// place must have allocated in most of the windows after the warm-up to be called one.
#pragma once

#include <cstdint>
#include <vector>

#include "attribution/cycle_leaks.h"
#include "snapshot/allocation_places.h"

namespace headroom::snapshot {

struct PlaceGrowth {
  PlaceIndex place;
  monitoring::Growth growth = monitoring::Growth::unknown;
  double bytes_per_window = 0;
  std::int64_t first_bytes = 0, last_bytes = 0;   // floors of the first and the last window
  std::int64_t late_bytes = 0;                    // what the floor grew by after the warm-up
  std::int64_t allocations = 0, live_blocks = 0;  // in the trace, and of all at its end
};

struct SnapshotLeaks {
  monitoring::Growth growth = monitoring::Growth::unknown;
  std::int64_t windows = 0, warm_up_windows = 0;
  std::int64_t entries_per_window = 0;
  double bytes_per_window = 0;  // of all that is live, or of the places that leak where it does not show
  std::int64_t late_bytes = 0;
  std::vector<std::int64_t> floor_bytes;  // of the device, window by window
  std::vector<PlaceGrowth> places;        // that leak or grew, the fastest first
};

class FloorWatch {
 public:
  static constexpr std::int64_t kMostWindows = 32, kFewestEntriesOfAWindow = 16;

  explicit FloorWatch(std::size_t entries);
  std::int64_t windows() const { return windows_; }

  // What is live before the trace begins; to be told before the first change.
  void begin(PlaceIndex place, std::int64_t bytes, std::int64_t blocks);
  // After entry `position`: the place holds so much more or less.
  void changed(std::size_t position, PlaceIndex place, std::int64_t by_bytes);
  SnapshotLeaks verdict(const AllocationPlaces& places);

 private:
  struct Floor {
    std::int32_t window = 0;
    std::int64_t bytes = 0, end_bytes = 0;  // the least in the window, and what was live at its end
    bool allocated = false;
  };
  struct Series {
    std::int64_t bytes = 0, blocks = 0, allocations = 0;
    std::vector<Floor> floors;  // of the windows in which it changed
  };
  Series& series_of(PlaceIndex place);
  void note(Series& series, std::int32_t window, std::int64_t by_bytes);
  std::vector<std::int64_t> floors_of(const Series& series, std::int64_t start_bytes) const;

  std::int64_t windows_ = 0;
  std::size_t window_entries_ = 1;
  Series all_;
  std::vector<Series> series_;       // by place
  std::vector<std::int64_t> start_;  // by place: bytes before the trace
  std::int64_t start_all_ = 0;
};

}  // namespace headroom::snapshot
