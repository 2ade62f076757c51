// The frames that a worker measures. FrameWalk reads them from the ring, window by window.
//
// FrameTurns is a worker's side of `headroom bench --in-step`. Two workers of two runs measure their frames
// in turns: one frame of the first, then one frame of the second. The worker without the turn sleeps, except
// for runtime threads that spin. So a disturbance of the machine (clock, other programs) affects a frame of
// each run equally.
//
// The workers talk over a SOCK_SEQPACKET pair:
// - When a worker is warm, it sends a TurnsHello.
// - Each sends one byte: whether it moved to the common processor.
// - Then one byte, the turn, goes back and forth.
//
// When a worker ends, its socket closes, and the other worker continues alone. It also continues alone if its
// partner's turn takes longer than the timeout.
#pragma once

#include <sched.h>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "base/units.h"
#include "bench/protocol.h"
#include "bench/worker/events.h"
#include "media/decoder.h"
#include "media/frame_ring.h"

namespace headroom::bench {

class FrameTurns {
 public:
  // `first`: this worker has the first turn. FrameTurns calls `waits` four times a second during the
  // partner's turn.
  FrameTurns(UniqueFd fd, bool first, Nanoseconds timeout, std::function<void()> waits)
      : fd_(std::move(fd)), first_(first), timeout_(timeout), waits_(std::move(waits)) {}
  ~FrameTurns() { leave(); }
  FrameTurns(const FrameTurns&) = delete;
  FrameTurns& operator=(const FrameTurns&) = delete;

  // Waits until the partner is warm. If both workers compute only in their calling thread, they move to one
  // processor. Two processors are seldom equally fast, for example when the other hardware thread of one core
  // is busy. Runs of three seconds differed by 0.9 % on two processors and by 0.55 % on one
  // (benchmarks/results/diff_in_step.md).
  void begin(bool computes_in_one_thread);
  // Passes the turn to the partner and waits until it comes back. Returns at once if the partner is gone.
  void next();
  // Call it after the last frame: it passes the turn for good. The worker that had the first turn waits for
  // its partner's last frame, so that both end at the same time.
  void end();

  // Number of frames measured in turns, before the partner left.
  std::int64_t frames() const { return frames_; }
  bool on_one_processor() const { return on_one_processor_; }

 private:
  bool wait_until_readable(Nanoseconds timeout) const;
  bool send(const void* bytes, std::size_t size);
  bool receive(void* bytes, std::size_t size, Nanoseconds timeout);
  // Continues alone and restores the CPU affinity.
  void leave();

  UniqueFd fd_;
  bool first_, has_begun_ = false, on_one_processor_ = false;
  Nanoseconds timeout_;
  std::optional<cpu_set_t> before_;  // CPU affinity before begin(), while pinned to one processor
  std::function<void()> waits_;
  std::int64_t frames_ = 0;
};

// A decoded frame: 8-bit BGR, packed rows.
struct FrameView {
  const std::uint8_t* bgr = nullptr;
  int width = 0, height = 0;
};

// The worker's side of decoding: reads the frames of a sequence, one window of them in memory at a time.
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
