// The allocation fast path: malloc, free, new and delete of small blocks that are only counted, in a program
// that uses the C library's allocator.
//
// Between two allocations of a runtime that launches kernels, none of this is in the first-level caches.
// There a pair of new and delete cost 60 ns when it touched eleven cache lines of data. With seven lines of
// data and about twenty of code it cost 35 ns (ONNX Runtime's resnet50 on an H200,
// benchmarks/results/gpu_trace_cost.md). So the fast path touches four lines of data: this struct, the
// thread's, the counters in its segment, and one of the sample filter. Each of the four functions normally
// runs two lines of code, about as many as the C++ runtime's detour to malloc that it saves.
//
// In a forked child, the thread's counters belong to its parent. So the kernel wipes this struct at any kind
// of fork, which closes the fast path. Where the kernel cannot wipe it, a fork handler closes it
// (recording_start.cpp).
//
// Everything unexpected, and one allocation and one release in 1024, goes to the slow path (malloc_hooks.cpp,
// new_hooks.cpp), which decides anew.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/address_set.h"
#include "preload/memory.h"
#include "preload/recorder.h"
#include "preload/threads.h"

namespace headroom::preload {

// The distance of thread_local_state from the thread pointer, equal in all threads, in bytes. The value 0
// means that the fast path is closed; it is never a valid distance.
using ThreadDistance = std::atomic<std::ptrdiff_t>;

[[gnu::always_inline]] inline ThreadLocal& thread_at(std::ptrdiff_t distance) {
  return *reinterpret_cast<ThreadLocal*>(static_cast<char*>(__builtin_thread_pointer()) + distance);
}

// Reads the size word that the C library's allocator keeps before each block. It is the block's bytes plus 8
// to 32, with flags in the lowest three bits. prepare_fast_path() checks that. free() reads the same cache
// line anyway.
[[gnu::always_inline]] inline std::size_t chunk_size(const void* block) {
  return static_cast<const std::size_t*>(block)[-1];
}

class alignas(kCacheLine) FastPath {
 public:
  // The C library's functions, which call none of the hooks.
  using Malloc = void* (*)(std::size_t);
  using Free = void (*)(void*);

  // Open for malloc and free: this process records in default mode.
  ThreadDistance for_malloc{0};
  // Open for new and delete: in addition, these are the standard library's, and they call this library's
  // malloc and free.
  ThreadDistance for_operators{0};

  // What a hook needs of this struct, copied before it checks whether the fast path is open. A signal handler
  // may fork in the middle of a hook and continue in the child, where the kernel has set `large_bytes` to 0.
  // Then every block is large, and fields that are read later do not matter.
  template <class Function>
  struct Snapshot {
    std::uint64_t large_bytes;
    AddressSet::SampleFilter samples;
    Function function;
    std::ptrdiff_t distance;
  };
  [[gnu::always_inline]] Snapshot<Malloc> read_for_allocation(const ThreadDistance& distance) const {
    return copy(distance, malloc_);
  }
  [[gnu::always_inline]] Snapshot<Free> read_for_release(const ThreadDistance& distance) const {
    return copy(distance, free_);
  }

  // Counts an allocation of this size if it needs no record. Returns whether it was counted.
  [[gnu::always_inline]] static bool counts_allocation(const Snapshot<Malloc>& snapshot, std::uint64_t size) {
    if (__builtin_expect(snapshot.distance == 0 || size >= snapshot.large_bytes, 0)) return false;
    ThreadLocal& thread = thread_at(snapshot.distance);
    if (__builtin_expect(thread.is_busy(), 0)) return false;
    const Busy busy(thread);
    recording::SegmentHeader* const counters = thread.counters;
    if (__builtin_expect(counters == nullptr || !thread.sampler.passes(size), 0)) return false;
    recording::RecordWriter::add(counters->counted_allocations, 1);
    recording::RecordWriter::add(counters->counted_bytes, size);
    return true;
  }
  // Counts this release if it needs no record. Returns whether it was counted. Releases of large blocks,
  // recognized by their size, and of sampled blocks are recorded instead.
  [[gnu::always_inline]] static bool counts_release(const Snapshot<Free>& snapshot, const void* pointer) {
    if (__builtin_expect(snapshot.distance == 0 ||
                             snapshot.samples.may_hold(reinterpret_cast<std::uint64_t>(pointer)) ||
                             chunk_size(pointer) >= snapshot.large_bytes,
                         0))
      return false;
    ThreadLocal& thread = thread_at(snapshot.distance);
    if (__builtin_expect(thread.is_busy(), 0)) return false;
    const Busy busy(thread);
    recording::SegmentHeader* const counters = thread.counters;
    if (__builtin_expect(counters == nullptr, 0)) return false;
    const std::uint64_t count = counters->counted_releases.load(std::memory_order_relaxed) + 1;
    if (__builtin_expect(is_clock_check_due(count), 0)) return false;
    counters->counted_releases.store(count, std::memory_order_relaxed);
    return true;
  }

  void open(Malloc allocate, Free release, std::ptrdiff_t distance);
  void open_for_operators(std::ptrdiff_t distance);
  void close();

 private:
  // While this lives, a signal handler that interrupts the thread must not close the segment whose counters
  // are in use.
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
  [[gnu::always_inline]] Snapshot<Function> copy(const ThreadDistance& distance,
                                                 const Function& function) const {
    const std::uint64_t large_bytes = large_bytes_;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const Function found = function;
    const AddressSet::SampleFilter samples = samples_;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return {large_bytes, samples, found, distance.load(std::memory_order_acquire)};
  }

  Malloc malloc_ = nullptr;
  Free free_ = nullptr;
  // Contains the samples, null, and the addresses that were allocated before the first recording.
  AddressSet::SampleFilter samples_;
  std::uint64_t large_bytes_ = 0;
};

// In the middle of the FastPathPage (fast_path.cpp). The assembler name gives the hooks short addresses.
extern FastPath fast_path __asm__("headroom_trace_fast_path") __attribute__((visibility("hidden")));

// Looks up the C library's functions before the first recording begins. A forked child must not call it,
// because it would wait for the loader's lock; it inherits its parent's result.
void prepare_fast_path();
// This process records from now on, as `process` specifies.
void open_fast_path();
void close_fast_path();
// Called when new and delete are known to be the standard library's, on top of this library's malloc and
// free.
void open_fast_path_for_operators();
// An allocation that was counted before the call failed: counts a release to compensate.
void count_failed_allocation();

// The allocation slow path: everything that the fast path (fast_path.h) cannot handle. It looks up the real
// allocator, records allocations that counting alone does not cover, and supports allocators and operators
// other than glibc's. Call these functions last in a hook (as a tail call), because they record their return
// address as the program's code.
void* allocate_slow_path(std::size_t size);
void release_slow_path(void* pointer);
void* new_slow_path(std::size_t size);
void delete_slow_path(void* pointer);
void delete_sized_slow_path(void* pointer, std::size_t size);

// Whether calls of malloc, free, new and delete by name reach this library: a program may define its own.
bool are_hot_hooks_in_force();

// Whether this library intercepts malloc, operator new and mmap.
//
// libheadroom_trace.so does. libheadroom_trace_gpu.so consists of the same objects without those hooks, for
// `headroom trace --only gpu` and for runs that need only the ledger. There the program calls the C library's
// malloc directly. A hook that only forwards costs 1.5 ns a call. PyTorch makes 8,600 calls in a pass of
// resnet50, which takes 3 ms, and the GPU waits meanwhile.
extern const bool kHasHostHooks;

}  // namespace headroom::preload
