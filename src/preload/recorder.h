// The functions that the hooks call to record an allocation or release. The thread's guard is set.
//
// The fast cases, small allocations and releases that are only counted, are defined here so that they are
// inlined into the hooks.
#pragma once

#include <cstdint>

#include "ledger/account.h"
#include "preload/clock.h"
#include "preload/process.h"
#include "preload/threads.h"
#include "types/memory_event.h"

namespace headroom::preload {

void record_allocation(ThreadLocal& thread, std::uint64_t address, std::uint64_t size,
                       const CallFrame& caller);
void record_small_allocation(ThreadLocal& thread, std::uint64_t address, std::uint64_t size,
                             const CallFrame& caller);
void record_map(ThreadLocal& thread, std::uint64_t address, std::uint64_t size, const CallFrame& caller);
// Address ranges without access, and ranges that got access later.
void record_reservation(ThreadLocal& thread, std::uint64_t address, std::uint64_t size,
                        const CallFrame& caller);
void record_accessible(ThreadLocal& thread, std::uint64_t address, std::uint64_t size,
                       const CallFrame& caller);
void record_unmap(ThreadLocal& thread, std::uint64_t address, std::uint64_t size, std::uint64_t time);
// The memory at this address is a weight of the layer that owns the weights scope `scope`.
void record_weight(ThreadLocal& thread, std::uint64_t address, std::uint32_t scope);
// GPU memory. The thread's guard is set; `time` of a release is taken before the driver's call.
void record_device_allocation(ThreadLocal& thread, unsigned device, DeviceMemoryKind kind,
                              std::uint64_t handle, std::uint64_t size, const CallFrame& caller);
void record_device_release(ThreadLocal& thread, unsigned device, DeviceMemoryKind kind, std::uint64_t handle,
                           std::uint64_t time);
void record_device_refusal(ThreadLocal& thread, unsigned device, DeviceMemoryKind kind, std::uint64_t size,
                           std::uint64_t charged, std::uint64_t limit, const CallFrame& caller);
// A process that holds memory of the device. Call it after record_device_refusal(), in the same thread.
void record_device_holder(ThreadLocal& thread, unsigned device, const ledger::Account::ProcessCharge& holder);
void record_device_figure(ThreadLocal& thread, unsigned device, DeviceMemoryKind kind, std::uint64_t bytes);
// Write the counters as a record, at most once in 2^22 time units (67 to 168 ms).
void check_clock(ThreadState& state);
void write_counters_if_due(ThreadState& state, std::uint64_t now);
// True at every 1024th count since the counters were last written. It reuses the counters, so the fast path
// needs no separate count. The fast path calls it only at releases. A sampled allocation also checks the
// clock.
[[gnu::always_inline]] inline bool is_clock_check_due(std::uint64_t counted) { return counted % 1024 == 0; }

// Counts an allocation of this size if it needs no record, because it is small and not sampled. Returns
// whether it was counted.
[[gnu::always_inline]] inline bool is_only_counted(ThreadLocal& thread, std::uint64_t size) {
  ThreadState* const state = thread.state;
  if (__builtin_expect(size >= process.large_bytes || state == nullptr || state->counters == nullptr ||
                           thread.sampler.chooses(size),
                       0))
    return false;
  if (__builtin_expect(is_clock_check_due(state->writer.count_allocation(size)), 0)) check_clock(*state);
  return true;
}
// Records an allocation for which is_only_counted() returned false.
[[gnu::always_inline]] inline void record_chosen(ThreadLocal& thread, const void* pointer, std::uint64_t size,
                                                 const CallFrame& caller) {
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  if (size >= process.large_bytes)
    record_allocation(thread, address, size, caller);
  else
    record_small_allocation(thread, address, size, caller);
}

inline void on_allocation(ThreadLocal& thread, const void* pointer, std::uint64_t size,
                          const CallFrame& caller) {
  if (!is_only_counted(thread, size)) record_chosen(thread, pointer, size, caller);
}

[[gnu::always_inline]] inline bool is_ready(const ThreadLocal& thread) {
  const ThreadState* const state = thread.state;
  return __builtin_expect(state != nullptr && state->writer.has_space() && state->quota != 0, 1);
}
// Prepares the thread for a record of `time`. Returns null if the event is dropped.
[[gnu::always_inline]] inline ThreadState* ready_to_record(ThreadLocal& thread, std::uint64_t time) {
  ThreadState* const state = is_ready(thread) ? thread.state : prepare_to_record(thread, time);
  if (state != nullptr) --state->quota;
  return state;
}
// Call it after each record. The C library's own destructors may run after the tracer saw the thread's end.
[[gnu::always_inline]] inline void done(ThreadLocal& thread) {
  if (__builtin_expect(thread.has_ended, 0)) detach(thread);
}

// In full mode, every release is recorded.
[[gnu::always_inline]] inline void record_release_in_full(ThreadLocal& thread, const void* pointer) {
  const std::uint64_t time = time_now();
  if (ThreadState* state = ready_to_record(thread, time))
    state->writer.release(time, reinterpret_cast<std::uint64_t>(pointer));
  done(thread);
}

// A release is prepared before the allocator frees the memory, because then another thread may get the same
// address. It is recorded after it has happened (a realloc may fail).
struct Release {
  std::uint64_t address = 0;
  std::uint64_t time = 0;
  bool is_recorded = false;  // true: its allocation was recorded, so record this; false: count it
};
[[gnu::always_inline]] inline Release begin_release(const void* pointer) {
  Release release{reinterpret_cast<std::uint64_t>(pointer)};
  const bool is_full = process.large_bytes == 0;
  if (is_full || __builtin_expect(process.recorded.may_hold(release.address), 0)) {
    release.is_recorded = is_full || process.recorded.remove(release.address);
    if (release.is_recorded) release.time = time_now();
  }
  return release;
}
void record_release(ThreadLocal& thread, const Release& release);
void count_release_slowly(ThreadLocal& thread);
[[gnu::always_inline]] inline void finish_release(ThreadLocal& thread, const Release& release) {
  if (release.is_recorded) return record_release(thread, release);
  ThreadState* const state = thread.state;
  if (__builtin_expect(state == nullptr || state->counters == nullptr, 0))
    return count_release_slowly(thread);
  if (__builtin_expect(is_clock_check_due(state->writer.count_release()), 0)) check_clock(*state);
}
// The release did not happen.
inline void cancel_release(const Release& release) {
  // Its original kind is no longer known. It is stored as a sample, because callers that only check for
  // samples must find it.
  if (release.is_recorded && process.large_bytes != 0) process.recorded.insert(release.address, true);
}

}  // namespace headroom::preload
