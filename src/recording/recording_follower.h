// Reads the events of a recording while its process writes it, so that its figures are ready when the process
// ends. Only recordings in full mode without a ring. It keeps no stacks.
//
//   auto follower = RecordingFollower::open(path);
//   while (!follower->is_closed()) follower->read(visit, false);   // every 50 ms
//   follower->read(visit, true);
//
// The order across threads: the process notes the time whenever a thread begins a segment. What it noted two
// reads ago is a safe horizon, because a thread writes an event right after it has taken its time. A thread
// that the system stops in between for longer breaks the order. read() notices that, and then gives up.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "base/files.h"
#include "recording/format.h"
#include "recording/segment_decoder.h"
#include "types/memory_event.h"

namespace headroom::recording {

class RecordingFollower {
 public:
  // Nothing if the file is not a recording that can be followed, or not yet.
  static std::optional<RecordingFollower> open(const std::filesystem::path& path);

  std::uint64_t page_bytes() const { return header().page_bytes; }
  bool is_closed() const { return (header().flags.load(std::memory_order_acquire) & kFlagClosed) != 0; }

  // Calls visit(const MemoryEvent&) for the next events in the order of Recording::for_each_event(). Their
  // times are in time units of the recording. `to_the_end`: the process has ended. Returns false if the file
  // must be read as a whole instead: it is damaged, or the order was broken.
  template <class Visit>
  bool read(Visit&& visit, bool to_the_end);

 private:
  struct Unmap {
    std::size_t size;
    void operator()(const std::uint8_t* bytes) const;
  };
  using Mapping = std::unique_ptr<const std::uint8_t, Unmap>;
  struct Segment {
    Mapping mapping;
    std::optional<SegmentDecoder> decoder;  // nothing before the first event
    bool has_event = false;                 // the decoder's event was not visited
    std::uint64_t base_time =
        ~std::uint64_t{0};  // no event is earlier; the largest number before the first event
    const SegmentHeader& header() const { return *reinterpret_cast<const SegmentHeader*>(mapping.get()); }
  };

  const FileHeader& header() const { return *reinterpret_cast<const FileHeader*>(header_.get()); }
  Mapping map(std::uint64_t offset, std::size_t bytes) const;
  // Finds the segments that the process has claimed since. Returns false if one cannot be mapped.
  bool find_segments();
  // Finds the next event of each segment, as far as the process has written it. Returns false if a segment
  // cannot be followed.
  bool extend_segments();
  void remove_finished();
  // The segment with the earliest event before the horizon; null if there is none. It comes before all others
  // until `until`.
  Segment* earliest(std::uint64_t horizon, std::uint64_t& until) const;
  std::uint64_t units_of(std::uint64_t ticks) const;

  UniqueFd fd_;
  Mapping header_;
  SampleWeights weights_{0};
  std::vector<std::unique_ptr<Segment>> segments_;  // those with events to come, by base time
  std::uint64_t claimed_ = 0;                       // segments that were found
  std::uint64_t last_time_ = 0;
  std::uint64_t noted_before_ = 0, noted_ = 0;  // last_ticks at the last two reads
};

template <class Visit>
bool RecordingFollower::read(Visit&& visit, bool to_the_end) {
  const std::uint64_t horizon = to_the_end ? ~std::uint64_t{0} : units_of(noted_before_);
  noted_before_ = noted_;
  noted_ = header().last_ticks.load(std::memory_order_acquire);
  if (!find_segments() || !extend_segments()) return false;
  std::uint64_t until = 0;
  while (Segment* segment = earliest(horizon, until)) {
    SegmentDecoder& decoder = *segment->decoder;
    // The first event is always due (comes_before() has decided a tie).
    do {
      if (decoder.next_time() < last_time_) return false;
      last_time_ = decoder.next_time();
      visit(decoder.event());
      segment->has_event = decoder.bytes_left() > 0 && decoder.advance();
    } while (segment->has_event && decoder.next_time() < until);
    if (decoder.damage() != nullptr) return false;
    if (!segment->has_event) remove_finished();
  }
  return true;
}

}  // namespace headroom::recording
