// A worker's side of `headroom bench --in-step`: two workers, of two runs, measure their frames by turns, one
// frame of the one and one of the other. Whoever has the turn is at work; the other one sleeps, but for
// threads of its runtime that spin on. So what the machine does to one frame (its clock, its neighbours) it
// does to the frame beside it, too.
//
// What they say to each other, on a SOCK_SEQPACKET pair: when each is warm a TurnsHello, then a byte each
// (whether it went to the common processor), then the turn: a byte that goes to and fro. A partner that dies
// or is done closes its end, and the other goes on alone; so it does where a turn takes longer than the
// timeout.
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
  // `first` has the first turn. `waits` is called four times a second while it is the partner's turn.
  FrameTurns(UniqueFd fd, bool first, Nanoseconds timeout, std::function<void()> waits)
      : fd_(std::move(fd)), first_(first), timeout_(timeout), waits_(std::move(waits)) {}
  ~FrameTurns() { leave(); }
  FrameTurns(const FrameTurns&) = delete;
  FrameTurns& operator=(const FrameTurns&) = delete;

  // Waits until the partner is warm, too. Where both compute in their calling thread alone they go to one
  // processor: two of them are seldom equally fast (one thread of a core whose other thread is busy), and
  // what runs of three seconds differed by was 0.9 %, and 0.55 % on one
  // (bench/results/diff_in_step.md).
  void begin(bool computes_in_one_thread);
  // Hands the turn over and waits for it to come back. Returns at once where there is no partner any more.
  void next();
  // After the last frame: the partner has the turn from now on. The first one waits for the frame that the
  // partner still owes it, so that both end at one moment.
  void end();

  // Frames that had a turn, so far: those before the partner went away.
  std::int64_t frames() const { return frames_; }
  bool on_one_processor() const { return on_one_processor_; }

 private:
  bool wait_until_readable(Nanoseconds timeout) const;
  bool send(const void* bytes, std::size_t size);
  bool receive(void* bytes, std::size_t size, Nanoseconds timeout);
  // There is no partner any more: this process may be where it was before.
  void leave();
  void share_processor(bool computes_in_one_thread);

  UniqueFd fd_;
  bool first_, has_begun_ = false, on_one_processor_ = false;
  Nanoseconds timeout_;
  std::optional<cpu_set_t> before_;  // the processors that it might have, while it has one
  std::function<void()> waits_;
  std::int64_t frames_ = 0;
};

}  // namespace headroom::bench
