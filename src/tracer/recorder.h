// What the hooks call when something was allocated or released. The thread's guard is up.
//
// The short ways, a small allocation or release that is only counted, are here to be inlined into the hooks.
#pragma once

#include <cstdint>

#include "ledger/account.h"
#include "model/device_memory.h"
#include "tracer/clock.h"
#include "tracer/process.h"
#include "tracer/thread_state.h"

namespace headroom::tracer {

void record_allocation(ThreadLocal& thread, std::uint64_t address, std::uint64_t size,
                       const CallFrame& caller);
void record_small_allocation(ThreadLocal& thread, std::uint64_t address, std::uint64_t size,
                             const CallFrame& caller);
void record_map(ThreadLocal& thread, std::uint64_t address, std::uint64_t size, const CallFrame& caller);
// Addresses without access, and memory where such addresses were given access.
void record_reservation(ThreadLocal& thread, std::uint64_t address, std::uint64_t size,
                        const CallFrame& caller);
void record_accessible(ThreadLocal& thread, std::uint64_t address, std::uint64_t size,
                       const CallFrame& caller);
void record_unmap(ThreadLocal& thread, std::uint64_t address, std::uint64_t size, std::uint64_t time);
// What lies at the address is a weight of the layer whose weights' scope this is.
void record_weight(ThreadLocal& thread, std::uint64_t address, std::uint32_t scope);
// Of GPUs. The thread's guard is up; `time` of a release is from before the driver's call.
void record_device_allocation(ThreadLocal& thread, unsigned device, DeviceMemoryKind kind,
                              std::uint64_t handle, std::uint64_t size, const CallFrame& caller);
void record_device_release(ThreadLocal& thread, unsigned device, DeviceMemoryKind kind, std::uint64_t handle,
                           std::uint64_t time);
void record_device_refusal(ThreadLocal& thread, unsigned device, DeviceMemoryKind kind, std::uint64_t size,
                           std::uint64_t charged, std::uint64_t limit, const CallFrame& caller);
// Behind a refusal of the thread.
void record_device_holder(ThreadLocal& thread, unsigned device, const ledger::Account::ProcessCharge& holder);
void record_device_figure(ThreadLocal& thread, unsigned device, DeviceMemoryKind kind, std::uint64_t bytes);
// The counters become a record of their own ten times a second.
void look_at_clock(ThreadState& state);
void write_counters_if_due(ThreadState& state, std::uint64_t now);
// So many allocations, or releases, since the counters were last written. The counters themselves tell, so
// that the short way keeps no count of its own. It asks at releases only; an allocation that is sampled looks
// at the clock, too.
[[gnu::always_inline]] inline bool is_time_to_look(std::uint64_t counted) { return counted % 1024 == 0; }

// Whether an allocation of `size` bytes is done with, being small and not chosen: then it was counted.
[[gnu::always_inline]] inline bool is_only_counted(ThreadLocal& thread, std::uint64_t size) {
  ThreadState* const state = thread.state;
  if (__builtin_expect(size >= process.large_bytes || state == nullptr || state->counters == nullptr ||
                           thread.sampler.chooses(size),
                       0))
    return false;
  if (__builtin_expect(is_time_to_look(state->writer.count_allocation(size)), 0)) look_at_clock(*state);
  return true;
}
// The others.
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

// A release is decided on before the allocator takes the memory back, because from then on another thread may
// get it, and written when it is known that it took place (a realloc may fail).
struct Release {
  std::uint64_t address = 0;
  std::uint64_t time = 0;
  bool is_recorded = false;  // its allocation was recorded, so this is too; else it is counted
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
  if (__builtin_expect(is_time_to_look(state->writer.count_release()), 0)) look_at_clock(*state);
}
// It did not take place after all.
inline void cancel_release(const Release& release) {
  // As a sample, which asks less of who looks for it: what it was is not known any more.
  if (release.is_recorded && process.large_bytes != 0) process.recorded.insert(release.address, true);
}

}  // namespace headroom::tracer
