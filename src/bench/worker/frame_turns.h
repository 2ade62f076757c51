// A worker's side of `headroom bench --in-step`. Two workers of two runs measure their frames in turns: one
// frame of the first, then one frame of the second. The worker without the turn sleeps, except for runtime
// threads that spin. So a disturbance of the machine (clock, other programs) affects a frame of each run
// equally.
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

#include "base/files.h"
#include "base/units.h"

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
  void share_processor(bool computes_in_one_thread);

  UniqueFd fd_;
  bool first_, has_begun_ = false, on_one_processor_ = false;
  Nanoseconds timeout_;
  std::optional<cpu_set_t> before_;  // CPU affinity before begin(), while pinned to one processor
  std::function<void()> waits_;
  std::int64_t frames_ = 0;
};

}  // namespace headroom::bench
