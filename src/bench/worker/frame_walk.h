// The worker's side of decoding: reads the frames of a sequence, one window of them in memory at a time.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"
#include "bench/protocol.h"
#include "bench/worker/events.h"
#include "bench/worker/loaded_model.h"
#include "media/decoder.h"
#include "media/frame_ring.h"
#include "types/source.h"

namespace headroom::bench {

class FrameWalk {
 public:
  // Reads at most `limit` frames of a sequence and holds at most `window` of them in memory.
  FrameWalk(media::FrameRing& ring, WorkerEvents& events, std::int64_t limit, std::int64_t window)
      : ring_(ring), events_(events), limit_(limit), largest_window_(window) {}

  Status start(std::int32_t sequence);
  // Reads the next window; it is empty at the end of the sequence.
  Status next_window();

  const std::vector<media::FrameSlot>& slots() const { return slots_; }
  // Index in the sequence of the window's first frame, counting only frames that could be decoded.
  std::int64_t first_frame() const { return done_ - static_cast<std::int64_t>(slots_.size()); }
  std::int64_t frames_done() const { return done_; }
  // Number of frames that could not be decoded since the last call.
  std::int64_t take_skipped() { return std::exchange(skipped_, 0); }
  FrameView view(const media::FrameSlot& slot) const { return {ring_.pixels(slot), slot.width, slot.height}; }

 private:
  Result<media::DecoderAnswer> ask(const media::DecoderRequest& request);

  media::FrameRing& ring_;
  WorkerEvents& events_;
  std::int64_t limit_, largest_window_;
  std::int64_t done_ = 0, skipped_ = 0;
  std::vector<media::FrameSlot> slots_;
};

// The frames to draw, counted over all sequences: the middles of `job.sample_images` equal parts of the
// source. So the images show all parts of the source, not three neighbours. Ascending, without duplicates.
std::vector<std::int64_t> sample_positions(const WorkerJob& job);

}  // namespace headroom::bench
