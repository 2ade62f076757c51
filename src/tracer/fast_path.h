// The short way of malloc, free, new and delete: a small allocation or release that is only counted, of a
// program that has the C library's allocator.
//
// Between two allocations of a runtime that launches kernels nothing of this is in the first-level caches: a
// pair of new and delete cost 60 ns there when it asked for eleven lines of data, 35 when it asked for seven
// and some twenty of code (ONNX Runtime's resnet50 on an H200, bench/results/gpu_trace_cost.md). So here it
// asks for four lines of data: this struct, the thread's, the counters in its segment, and one of the filter;
// and the usual way of each of the four functions two lines of code, about as many as the C++ runtime's way
// to malloc that it saves.
//
// In a child after fork, however that was made, the kernel has wiped this struct, so that the way is closed:
// the thread's counters are its parent's. (Where the kernel cannot, a handler of fork closes it:
// process.cpp.)
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

class alignas(kCacheLine) FastPath {
 public:
  // The C library's own, which call none of the hooks.
  using Malloc = void* (*)(std::size_t);
  using Free = void (*)(void*);

  // malloc and free: this process records in default mode.
  ThreadDistance for_malloc{0};
  // new and delete: they are the standard library's, besides, made of this library's malloc and free.
  ThreadDistance for_operators{0};

  // What a hook needs of this, read before it asks whether the way is open. A signal's handler may fork in
  // the midst of a hook and go on in the child, where `large_bytes` has become 0, which all blocks have, and
  // what is read later is nothing.
  template <class Function>
  struct Read {
    std::uint64_t large_bytes;
    AddressSet::SampleFilter asks_first;
    Function function;
    std::ptrdiff_t distance;
  };
  [[gnu::always_inline]] Read<Malloc> read_for_allocation(const ThreadDistance& way) const {
    return read(way, malloc_);
  }
  [[gnu::always_inline]] Read<Free> read_for_release(const ThreadDistance& way) const {
    return read(way, free_);
  }

  // Whether an allocation of so many bytes is counted, and that was all.
  [[gnu::always_inline]] static bool counts_allocation(const Read<Malloc>& read, std::uint64_t size) {
    if (__builtin_expect(read.distance == 0 || size >= read.large_bytes, 0)) return false;
    ThreadLocal& thread = thread_at(read.distance);
    if (__builtin_expect(thread.is_busy(), 0)) return false;
    const Busy busy(thread);
    recording::SegmentHeader* const counters = thread.counters;
    if (__builtin_expect(counters == nullptr || !thread.sampler.passes(size), 0)) return false;
    recording::RecordWriter::add(counters->counted_allocations, 1);
    recording::RecordWriter::add(counters->counted_bytes, size);
    return true;
  }
  // A large block is recorded, and told by its size; of the small ones those that were sampled are.
  [[gnu::always_inline]] static bool counts_release(const Read<Free>& read, const void* pointer) {
    if (__builtin_expect(read.distance == 0 ||
                             read.asks_first.may_hold(reinterpret_cast<std::uint64_t>(pointer)) ||
                             chunk_size(pointer) >= read.large_bytes,
                         0))
      return false;
    ThreadLocal& thread = thread_at(read.distance);
    if (__builtin_expect(thread.is_busy(), 0)) return false;
    const Busy busy(thread);
    recording::SegmentHeader* const counters = thread.counters;
    if (__builtin_expect(counters == nullptr, 0)) return false;
    const std::uint64_t count = counters->counted_releases.load(std::memory_order_relaxed) + 1;
    if (__builtin_expect(is_time_to_look(count), 0)) return false;
    counters->counted_releases.store(count, std::memory_order_relaxed);
    return true;
  }

  void open(Malloc allocate, Free release, std::ptrdiff_t distance);
  void open_for_operators(std::ptrdiff_t distance);
  void close();

 private:
  // A handler that interrupts this must not have the segment closed that is counted in.
  class Busy {
   public:
    [[gnu::always_inline]] explicit Busy(ThreadLocal& thread) : thread_(thread) {
      thread_.guard = 1;
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    [[gnu::always_inline]] ~Busy() {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      thread_.guard = 0;
    }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    ThreadLocal& thread_;
  };

  template <class Function>
  [[gnu::always_inline]] Read<Function> read(const ThreadDistance& way, const Function& function) const {
    const std::uint64_t large_bytes = large_bytes_;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const Function found = function;
    const AddressSet::SampleFilter asks_first = asks_first_;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return {large_bytes, asks_first, found, way.load(std::memory_order_acquire)};
  }

  Malloc malloc_ = nullptr;
  Free free_ = nullptr;
  // Holds samples, null, and what was allocated before the first recording.
  AddressSet::SampleFilter asks_first_;
  std::uint64_t large_bytes_ = 0;
};

// In the midst of fast_path_page (fast_path.cpp), by a name of its own, which makes the addresses in the
// hooks short.
extern FastPath fast_path __asm__("headroom_trace_fast_path") __attribute__((visibility("hidden")));

// Looked up before the first recording begins. Not in a child after fork, which must not wait for the
// loader's lock and has its parent's.
void prepare_fast_path();
// This process records from now on, as `process` says.
void open_fast_path();
void close_fast_path();
// new and delete are the standard library's, made of this library's malloc and free.
void open_fast_path_for_operators();
// An allocation that was counted before it was tried, and failed, is told as released at once.
void count_failed_allocation();

}  // namespace headroom::tracer
