// The mutex of session.h: an exchange to take it and one to give it back, in line. The C library's costs 15
// ns in a program with threads, and the way there; this 12, and it is taken four times for a layer that
// allocates once.
#pragma once

#include <atomic>
#include <cstdint>

namespace headroom::memory_tracer {

class SessionMutex {
 public:
  void lock() {
    std::uint32_t free = kFree;
    if (!state_.compare_exchange_strong(free, kHeld, std::memory_order_acquire)) wait_for_it();
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) state_.notify_one();
  }

 private:
  static constexpr std::uint32_t kFree = 0, kHeld = 1, kAwaited = 2;
  // Whoever has waited does not know whether others still do, and so leaves it as awaited.
  [[gnu::noinline]] void wait_for_it() {
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) state_.wait(kAwaited);
  }
  std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace headroom::memory_tracer
