// The short way of malloc, free, new and delete: a small allocation or release that is only counted, of a
// program that has the C library's allocator.
//
// Between two allocations of a runtime that launches kernels nothing of this is in the first-level caches: a
// pair of new and delete cost 60 ns there when it asked for eleven lines of data, 35 when it asked for seven
// and some twenty of code (ONNX Runtime's resnet50 on an H200, bench/results/gpu_trace_cost.md). So here it
// asks for five lines of data: this struct, the thread's, its state, the counters in its segment, and one of
// the filter; and each of the four functions takes two lines of code, about as many as the C++ runtime's way
// to malloc that it saves.
//
// Whatever is not as expected, and one allocation and release in 1024, goes the long way (malloc_hooks.cpp,
// new_hooks.cpp), which decides anew.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tracer/address_set.h"
#include "tracer/hot_data.h"
#include "tracer/recorder.h"
#include "tracer/thread_state.h"

namespace headroom::tracer {

// The distance of thread_local_state from the thread pointer, the same in all threads. 0, which none has: the
// way is closed.
using ThreadDistance = std::atomic<std::ptrdiff_t>;

[[gnu::always_inline]] inline ThreadLocal& thread_at(std::ptrdiff_t distance) {
  return *reinterpret_cast<ThreadLocal*>(static_cast<char*>(__builtin_thread_pointer()) + distance);
}

// What the C library's allocator has in the word before each block: its bytes and 8 to 32 more, in the lowest
// three bits something else. Whether it does is tried before this is used, and free asks for that line
// anyway.
[[gnu::always_inline]] inline std::size_t chunk_size(const void* block) {
  return static_cast<const std::size_t*>(block)[-1];
}

struct alignas(kCacheLine) ShortWay {
  // malloc and free: this process records in default mode, and the functions below are known.
  ThreadDistance for_malloc{0};
  // new and delete: they are the standard library's, besides, made of this library's malloc and free.
  ThreadDistance for_operators{0};
  // The C library's own, which call none of the hooks: so the thread need not be busy meanwhile. Null: others
  // stand behind this library.
  void* (*malloc)(std::size_t) = nullptr;
  void (*free)(void*) = nullptr;
  // Holds samples, null, and what was allocated before the first recording.
  AddressSet::Filter asks_first;
  std::uint64_t large_bytes = 0;
  std::ptrdiff_t distance = 0;  // of a way that is open
  std::atomic<bool> has_operators{false};

  // Whether an allocation of so many bytes is counted, and that was all.
  [[gnu::always_inline]] bool counts_allocation(const ThreadDistance& way, std::uint64_t size) const {
    const std::ptrdiff_t open = way.load(std::memory_order_acquire);
    if (__builtin_expect(open == 0 || size >= large_bytes, 0)) return false;
    ThreadLocal& thread = thread_at(open);
    ThreadState* const state = thread.ready;
    if (__builtin_expect(state == nullptr, 0)) return false;
    const Busy busy(thread, state);
    recording::SegmentHeader* const counters = state->counters;
    if (__builtin_expect(counters == nullptr, 0)) return false;
    const std::uint64_t count = counters->counted_allocations.load(std::memory_order_relaxed) + 1;
    if (__builtin_expect(is_time_to_look(count) || !state->sampler.passes(size), 0)) return false;
    counters->counted_allocations.store(count, std::memory_order_relaxed);
    counters->counted_bytes.store(counters->counted_bytes.load(std::memory_order_relaxed) + size,
                                  std::memory_order_relaxed);
    return true;
  }
  // A large block is recorded, and told by its size; of the small ones those that were sampled are.
  [[gnu::always_inline]] bool counts_release(const ThreadDistance& way, const void* pointer) const {
    const std::ptrdiff_t open = way.load(std::memory_order_acquire);
    if (__builtin_expect(open == 0 || asks_first.may_hold(reinterpret_cast<std::uint64_t>(pointer)) ||
                             chunk_size(pointer) >= large_bytes,
                         0))
      return false;
    ThreadLocal& thread = thread_at(open);
    ThreadState* const state = thread.ready;
    if (__builtin_expect(state == nullptr, 0)) return false;
    const Busy busy(thread, state);
    recording::SegmentHeader* const counters = state->counters;
    if (__builtin_expect(counters == nullptr, 0)) return false;
    const std::uint64_t count = counters->counted_releases.load(std::memory_order_relaxed) + 1;
    if (__builtin_expect(is_time_to_look(count), 0)) return false;
    counters->counted_releases.store(count, std::memory_order_relaxed);
    return true;
  }

 private:
  // A handler that interrupts this must not have the segment closed that is counted in.
  class Busy {
   public:
    [[gnu::always_inline]] Busy(ThreadLocal& thread, ThreadState* state) : thread_(thread), state_(state) {
      thread_.ready = nullptr;
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    [[gnu::always_inline]] ~Busy() {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      thread_.ready = state_;
    }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    ThreadLocal& thread_;
    ThreadState* const state_;
  };
};
extern ShortWay short_way;

// Looked up before the first recording begins. Not in a child after fork, which must not wait for the
// loader's lock and has its parent's.
void prepare_short_way();
// This process records from now on, as `process` says.
void open_short_way();
void close_short_way();
// new and delete are the standard library's, made of this library's malloc and free.
void open_short_way_for_operators();
// An allocation that was counted before it was tried, and failed, is told as released at once.
void count_failed_allocation();

}  // namespace headroom::tracer
