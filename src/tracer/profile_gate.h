// When the runtime's profile of a session may be ended: after its first runs, at a moment when none is in
// flight.
//
// ONNX Runtime must not end a profile during a run: its executor asks whether profiling is on, and later
// takes for granted that it still is (ORT_ENFORCE in Profiler::Start); in between, the run would fail. Where
// threads share a session such a moment may never come by itself, and the profile grows in the traced
// program's heap, about 3 KiB a node and run. So after the third run the gate closes: new runs wait, those in
// flight go on, the last of them ends the profile, and the gate stays open for good. From then on a run reads
// one atomic.
//
// Two things bound the wait. A thread that is in a run already (a custom operator that runs a session) never
// waits for runs to end, because its own must. And where a run never ends (its thread was ended in it, or it
// waits for a run that waits here), the wait is over after a time and the profile is left to a moment without
// runs, which may come.
#pragma once

#include <atomic>
#include <cstdint>

namespace headroom::tracer {

// The profile is ended after so many runs: the first shows the arena grow, the next two the steady state.
inline constexpr std::uint32_t kProfiledRuns = 3;

class ProfileGate {
 public:
  enum class Entry {
    unprofiled,     // the profile is over: leave() is not called
    profiled,       // leave() is called after the run
    gave_up_first,  // the same, after this thread waited in vain
  };

  // Before the session is known to other threads.
  void open(bool profiled);

  // Before a run. `in_run`: the calling thread is in a run of this or another session.
  Entry enter(bool in_run);
  // After it, with how long it took. True: no run is in flight and none begins; the caller ends the profile
  // and then says so by set_ended().
  bool leave(std::uint64_t run_ns);
  void set_ended();

  // Whether the caller has to end the profile now, as after leave(). Not while a run is in flight: one that
  // is gets this long to end the profile itself.
  bool close(std::uint64_t wait_ns);
  // The same before the session is released, when no run is in flight, whatever was counted.
  bool close_for_release();

  bool is_profiled() const { return (state_.load(std::memory_order_acquire) & kEnded) == 0; }

 private:
  // In `state_`, above the number of runs in flight.
  static constexpr std::uint32_t kEnded = 1u << 31;   // there is no profile (any more)
  static constexpr std::uint32_t kEnding = 1u << 30;  // a thread ends it now
  static constexpr std::uint32_t kClosed = 1u << 29;  // new runs wait until those in flight are over
  static constexpr std::uint32_t kGaveUp = 1u << 28;  // nobody waits any more
  static constexpr std::uint32_t kInFlight = kGaveUp - 1;

  std::uint64_t longest_wait_ns() const;
  // Waits until `state_` is not `seen`, or until the time (CLOCK_MONOTONIC). False: the time is over.
  bool wait_for_change(std::uint32_t seen, std::uint64_t until_ns);
  void wake_all();

  std::atomic<std::uint32_t> state_{kEnded};
  std::atomic<std::uint32_t> runs_{0};
  std::atomic<std::uint64_t> longest_run_ns_{0};
  std::int32_t pid_ = 0;  // a forked child's runs are not held, and its profile is its parent's
};

}  // namespace headroom::tracer
