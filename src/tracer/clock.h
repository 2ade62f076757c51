// The tracer's clock: the processor's counter where it runs at one rate on all cores, else CLOCK_MONOTONIC.
//
// Times in records are in units of 2^shift ticks, 16 to 40 ns: as fine as needed to sort the release and the
// next use of one address, coarse enough that the time since the last event mostly fits into its tag byte.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace headroom::tracer {

struct Clock {
  bool counter = false;  // the processor's counter can be trusted
  // More than one thread records. A processor reads its counter ahead of loads that come before it in the
  // program, by up to a hundred nanoseconds: the release of a block that another thread has just handed over
  // then looks older than its allocation. Waiting for the loads costs 10 ns, and a lone thread need not.
  std::atomic<bool> is_shared{false};
  unsigned shift = 4;
  std::uint64_t first_ticks = 0;  // of this recording
};
extern Clock process_clock;

inline std::uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// Without waiting.
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
#if defined(__x86_64__)
  if (process_clock.is_shared.load(std::memory_order_relaxed)) _mm_lfence();
#elif defined(__aarch64__)
  if (process_clock.is_shared.load(std::memory_order_relaxed)) asm volatile("isb");
#endif
  return ticks_about_now();
}

// Time units since the start of the recording.
inline std::uint64_t time_now() { return (ticks_now() - process_clock.first_ticks) >> process_clock.shift; }
// For what has an order within its own thread only.
inline std::uint64_t time_about_now() {
  return (ticks_about_now() - process_clock.first_ticks) >> process_clock.shift;
}

// Chooses the counter and the unit. The first reading of ticks is the caller's to take.
void choose_clock();

}  // namespace headroom::tracer
