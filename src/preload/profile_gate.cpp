#include "preload/profile_gate.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "preload/clock.h"
#include "preload/memory.h"

namespace headroom::preload {
namespace {

constexpr std::uint64_t kSecondInNs = 1'000'000'000;

}  // namespace

void ProfileGate::open(bool profiled) {
  runs_ = 0;
  longest_run_ns_ = 0;
  pid_ = ::getpid();
  state_.store(profiled ? 0 : kEnded, std::memory_order_release);
}

// Twice the longest run so far, because those in flight may be slower. At least a second, because the first
// runs may not have ended yet. At most a minute, for programs whose runs wait for each other.
std::uint64_t ProfileGate::longest_wait_ns() const {
  return std::min(60 * kSecondInNs, kSecondInNs + 2 * std::min(longest_run_ns_.load(), 60 * kSecondInNs));
}

bool ProfileGate::wait_for_change(std::uint32_t seen, std::uint64_t until_ns) {
  const OwnSystemCalls own_calls;
  const std::uint64_t now = monotonic_ns();
  if (now >= until_ns) return false;
  const timespec left{static_cast<time_t>((until_ns - now) / kSecondInNs),
                      static_cast<long>((until_ns - now) % kSecondInNs)};
  // A real change, a signal and a timeout look the same here, so the caller checks again.
  ::syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, seen, &left, nullptr, 0);
  return true;
}

void ProfileGate::wake_all() {
  const OwnSystemCalls own_calls;
  ::syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

ProfileGate::Entry ProfileGate::enter(bool in_run) {
  std::uint32_t state = state_.load(std::memory_order_acquire);
  std::uint64_t until = 0;
  bool gave_up = false;
  while ((state & kEnded) == 0) {
    const bool must_wait = (state & kEnding) != 0 || ((state & kClosed) != 0 && !in_run);
    if (!must_wait) {
      if (state_.compare_exchange_weak(state, state + 1))
        return gave_up ? Entry::gave_up_first : Entry::profiled;
      continue;
    }
    if (::getpid() != pid_) return Entry::unprofiled;
    if (until == 0) until = monotonic_ns() + longest_wait_ns();
    if (wait_for_change(state, until)) {
      state = state_.load(std::memory_order_acquire);
    } else if ((state & kEnding) != 0) {
      until = 0;  // the file is being written, which does not depend on runs
    } else if (state_.compare_exchange_strong(state, (state & ~kClosed) | kGaveUp)) {
      gave_up = true;
      state = state_.load(std::memory_order_acquire);
      wake_all();
    }
  }
  return Entry::unprofiled;
}

bool ProfileGate::leave(std::uint64_t run_ns) {
  std::uint64_t longest = longest_run_ns_.load();
  while (longest < run_ns && !longest_run_ns_.compare_exchange_weak(longest, run_ns)) {
  }
  const bool enough = runs_.fetch_add(1) + 1 >= kProfiledRuns;
  std::uint32_t state = state_.load();
  for (;;) {
    if ((state & (kEnded | kEnding)) != 0) return false;  // the session was released during the run
    std::uint32_t next = state - 1;
    if (enough && (state & kGaveUp) == 0) next |= kClosed;
    const bool is_last = (next & kInFlight) == 0 && (enough || (next & kClosed) != 0);
    // In a forked child, runs that were in flight in the parent never end, and the profile belongs to the
    // parent.
    if (is_last && ::getpid() == pid_) next = kEnding;
    if (state_.compare_exchange_weak(state, next)) return next == kEnding;
  }
}

void ProfileGate::set_ended() {
  state_.store(kEnded, std::memory_order_release);
  wake_all();
}

bool ProfileGate::close(std::uint64_t wait_ns) {
  if (::getpid() != pid_) return false;  // after vfork the gate's memory is the parent's
  const std::uint64_t until = monotonic_ns() + wait_ns;
  std::uint32_t state = state_.load();
  while ((state & kEnded) == 0) {
    if ((state & (kInFlight | kEnding)) == 0) {
      if (state_.compare_exchange_weak(state, kEnding)) return true;
      continue;
    }
    if ((state & (kClosed | kEnding)) == 0) {
      if (!state_.compare_exchange_weak(state, state | kClosed)) continue;
      state |= kClosed;
    }
    if (!wait_for_change(state, until)) break;
    state = state_.load();
  }
  // The profile did not end, so let waiting runs continue.
  while ((state & kClosed) != 0 && !state_.compare_exchange_weak(state, (state & ~kClosed) | kGaveUp)) {
  }
  wake_all();
  return false;
}

bool ProfileGate::close_for_release() {
  if (::getpid() != pid_) return false;
  std::uint32_t state = state_.load();
  while ((state & kEnded) == 0) {
    if ((state & kEnding) != 0) {
      wait_for_change(state, monotonic_ns() + kSecondInNs);
      state = state_.load();
    } else if (state_.compare_exchange_weak(state, kEnding)) {
      return true;
    }
  }
  return false;
}

}  // namespace headroom::preload
