// Decides when the runtime's profile of a session may end: after the session's first runs, while none is in
// flight.
//
// ONNX Runtime must not end a profile during a run. Its executor checks whether profiling is on, and later
// assumes that it still is (ORT_ENFORCE in Profiler::Start); ending it in between makes the run fail. Where
// threads share a session, a moment without runs may never occur. Meanwhile the profile grows in the traced
// program's heap by about 3 KiB per node and run. So after the third run the gate closes: new runs wait and
// those in flight continue. The last of them ends the profile, and the gate stays open for good. From then on
// a run reads one atomic.
//
// Two rules bound the wait. A thread that is already in a run (a custom operator that runs a session) never
// waits, because its own run must end first. And a run may never end, because its thread was terminated, or
// because it waits for a run that waits here. So the wait times out, and the profile ends at a later moment
// without runs, if one occurs.
#pragma once

#include <atomic>
#include <cstdint>

namespace headroom::preload {

// The profile ends after this number of runs: the first shows how the arena grows, the next two the steady
// state.
inline constexpr std::uint32_t kProfiledRuns = 3;

class ProfileGate {
 public:
  enum class Entry {
    unprofiled,     // the profile has ended: do not call leave()
    profiled,       // call leave() after the run
    gave_up_first,  // like profiled, after this thread's wait timed out
  };

  // Call it before other threads know the session.
  void open(bool profiled);

  // Call it before a run. `in_run`: the calling thread is already in a run of this or another session.
  Entry enter(bool in_run);
  // Call it after the run, with its duration. True: no run is in flight and none can begin. Then the caller
  // ends the profile and calls set_ended().
  bool leave(std::uint64_t run_ns);
  void set_ended();

  // True: the caller must end the profile now, as after leave(). If runs are in flight, waits up to `wait_ns`
  // for them to end the profile themselves.
  bool close(std::uint64_t wait_ns);
  // Like close(), before the session is released, when no run is in flight. Ignores the run counters.
  bool close_for_release();

  bool is_profiled() const { return (state_.load(std::memory_order_acquire) & kEnded) == 0; }

 private:
  // Flags in `state_`, above the number of runs in flight.
  static constexpr std::uint32_t kEnded = 1u << 31;   // the profile has ended, or there never was one
  static constexpr std::uint32_t kEnding = 1u << 30;  // a thread is ending it
  static constexpr std::uint32_t kClosed = 1u << 29;  // new runs wait until those in flight have ended
  static constexpr std::uint32_t kGaveUp = 1u << 28;  // a wait timed out: runs no longer wait
  static constexpr std::uint32_t kInFlight = kGaveUp - 1;

  std::uint64_t longest_wait_ns() const;
  // Waits until `state_` differs from `seen`, or until this time (CLOCK_MONOTONIC). Returns false if the time
  // is over.
  bool wait_for_change(std::uint32_t seen, std::uint64_t until_ns);
  void wake_all();

  std::atomic<std::uint32_t> state_{kEnded};
  std::atomic<std::uint32_t> runs_{0};
  std::atomic<std::uint64_t> longest_run_ns_{0};
  std::int32_t pid_ = 0;  // a forked child's runs do not wait; the profile belongs to its parent
};

}  // namespace headroom::preload
