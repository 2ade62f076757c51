// The short way of malloc, free, new and delete: a small allocation or release that is only counted, of a
// program that has the C library's allocator.
//
// Between two allocations of a runtime that launches kernels nothing of this is in the first-level caches: a
// pair of new and delete cost 60 ns there when it asked for eleven lines of data, 35 when it asked for seven
// and some twenty of code (ONNX Runtime's resnet50 on an H200, bench/results/gpu_trace_cost.md). So here it
// asks for five lines of data: this struct, the thread's, its state, the counters in its segment, and one of
// the filter; and for eight of code, which lie together (hot_hooks.cpp), and no detour by the C++ runtime.
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

struct alignas(kCacheLine) ShortWay {
  // Not 0: this process records in default mode, and the functions below are known.
  std::atomic<std::uint32_t> is_open{0};
  // Not 0: new and delete are the standard library's, made of this library's malloc and free.
  std::atomic<std::uint32_t> has_operators{0};
  std::uint64_t large_bytes = 0;
  AddressSet::Filter recorded;
  std::ptrdiff_t thread_offset = 0;  // of thread_local_state from the thread pointer: the same in all threads
  // The C library's own, which call none of the hooks: so the guard need not be up meanwhile. Null: others
  // stand behind this library.
  void* (*malloc)(std::size_t) = nullptr;
  void (*free)(void*) = nullptr;

  ThreadLocal& thread() const {
    return *reinterpret_cast<ThreadLocal*>(static_cast<char*>(__builtin_thread_pointer()) + thread_offset);
  }
  // Whether an allocation of so many bytes is counted, and that was all.
  [[gnu::always_inline]] bool counts_allocation(std::uint64_t size) const {
    if (__builtin_expect(is_open.load(std::memory_order_acquire) == 0 || size >= large_bytes, 0))
      return false;
    ThreadLocal& local = thread();
    ThreadState* const state = local.state;
    if (__builtin_expect(local.guard != 0 || state == nullptr || state->counts_small == 0, 0)) return false;
    // A handler that interrupts this may have the segment closed: so with the guard up.
    const OuterGuard guard(local);
    if (__builtin_expect(
            is_time_to_look(state->writer.counted_allocations() + 1) || !state->sampler.passes(size), 0))
      return false;
    state->writer.count_allocation(size);
    return true;
  }
  [[gnu::always_inline]] bool counts_release(const void* pointer) const {
    if (__builtin_expect(is_open.load(std::memory_order_acquire) == 0 || pointer == nullptr ||
                             recorded.may_hold(reinterpret_cast<std::uint64_t>(pointer)),
                         0))
      return false;
    ThreadLocal& local = thread();
    ThreadState* const state = local.state;
    if (__builtin_expect(local.guard != 0 || state == nullptr || state->counts_small == 0, 0)) return false;
    const OuterGuard guard(local);
    if (__builtin_expect(is_time_to_look(state->writer.counted_releases() + 1), 0)) return false;
    state->writer.count_release();
    return true;
  }
};
extern ShortWay short_way;

// Looked up before the first recording begins. Not in a child after fork, which must not wait for the
// loader's lock and has its parent's.
void prepare_short_way();
// This process records from now on, as `process` says.
void open_short_way();
void close_short_way();
// An allocation that was counted before it was tried, and failed, is told as released at once.
void count_failed_allocation();

}  // namespace headroom::tracer
