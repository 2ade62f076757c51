// The tracer's clock: the processor's counter if it runs at one rate on all cores, else CLOCK_MONOTONIC.
//
// Times in records are in units of 2^shift ticks, 16 to 40 ns. That is fine enough to order the release and
// the reuse of an address. It is coarse enough that the time since the last event mostly fits into the
// event's tag byte.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace headroom::preload {

struct Clock {
  bool counter = false;  // the processor's counter can be trusted
  // Changes once more than one thread records. A processor may read its counter up to a hundred nanoseconds
  // before it performs earlier loads. If another thread has just handed over a block, its release could then
  // appear older than its allocation. Waiting for the loads costs 5 ns, or 10 ns by a fence of its own. A
  // single thread need not wait.
  enum class Wait : std::uint8_t { none, with_fence, within };
  std::atomic<Wait> wait{Wait::none};
  unsigned shift = 4;
  std::uint64_t first_ticks = 0;  // when this recording began
};
extern Clock process_clock;

inline std::uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}
inline std::uint64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }

// Reads the counter without waiting for earlier loads.
inline std::uint64_t ticks_about_now() {
#if defined(__x86_64__)
  if (__builtin_expect(process_clock.counter, 1)) return __rdtsc();
#elif defined(__aarch64__)
  if (__builtin_expect(process_clock.counter, 1)) {
    std::uint64_t ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
  }
#endif
  return monotonic_ns();
}

inline std::uint64_t ticks_now() {
  const Clock::Wait wait = process_clock.wait.load(std::memory_order_relaxed);
#if defined(__x86_64__)
  if (wait == Clock::Wait::within) {
    unsigned processor = 0;
    return __rdtscp(&processor);
  }
  if (wait != Clock::Wait::none) _mm_lfence();
#elif defined(__aarch64__)
  if (wait != Clock::Wait::none) asm volatile("isb");
#endif
  return ticks_about_now();
}

// Time units since the start of the recording.
inline std::uint64_t time_now() { return (ticks_now() - process_clock.first_ticks) >> process_clock.shift; }
// For events that are ordered only within their own thread.
inline std::uint64_t time_about_now() {
  return (ticks_about_now() - process_clock.first_ticks) >> process_clock.shift;
}

// A second thread records.
void share_clock();

// Selects the counter and the unit. The caller takes the first reading of ticks.
void choose_clock();

}  // namespace headroom::preload
