// What every hook of a CUDA driver function does: it asks the ledger, calls the driver, then updates the
// ledger and the recording.
//
// While the driver runs, the thread's guard is down: heap memory that the driver allocates belongs to the
// process and is recorded. The driver also calls its own exported functions; `driver_depth` keeps those calls
// from being counted twice.
#pragma once

#include <span>

#include "preload/call_frame.h"
#include "preload/device_account.h"
#include "preload/device_contexts.h"
#include "preload/driver_calls.h"
#include "preload/process.h"
#include "preload/recorder.h"
#include "preload/thread_state.h"
#include "types/device_memory.h"
#include "types/lock.h"

namespace headroom::preload {

using ledger::Entry;
using ledger::EntryType;

// Counts the hooks that began and ended, in all threads. While both are equal, no driver call is in progress,
// so the ledger and the driver agree.
struct DriverCalls {
  std::atomic<std::uint64_t> begun{0}, ended{0};
};
extern constinit DriverCalls driver_calls;

// Under a limit, serializes calls of the driver's pool and graph functions, and small allocations that share
// a granule. The lock protects the time between reading one of the driver's figures and using it. With a
// figure from before another thread's call, the charge would be too low.
//
// Other calls by pointer, handle or array do not lock, because they are charged what they request. The lock
// is recursive. A thread that holds it must not wait for anything except the driver's own call.
extern constinit Lock driver_lock;

// Holds the driver lock. Without a limit it does nothing, unless it is unconditional().
class DriverLock {
 public:
  explicit DriverLock(bool is_needed = true) : DriverLock(is_needed, false) {}
  // Locks even without a limit: so no thread asks about a pool while another one destroys it.
  static DriverLock unconditional() { return DriverLock(true, true); }
  ~DriverLock();
  bool is_held() const { return is_held_; }
  // Unlock before blocking on work that may need a thread that wants this lock; then lock again.
  void unlock();
  void lock();
  DriverLock(const DriverLock&) = delete;
  DriverLock& operator=(const DriverLock&) = delete;

 private:
  DriverLock(bool is_needed, bool is_unconditional);
  bool is_needed_, is_unconditional_, is_held_ = false;
};

// One per hook call, for as long as the call runs.
class DriverHook {
 public:
  // `caller` is who called the hook; empty for the tracer's own calls.
  explicit DriverHook(const CallFrame& caller = {}) : thread_(thread_local_state), caller_(caller) {
    ++thread_.driver_depth;
    driver_calls.begun.fetch_add(1, std::memory_order_acq_rel);
  }
  ~DriverHook() {
    driver_calls.ended.fetch_add(1, std::memory_order_acq_rel);
    --thread_.driver_depth;
  }
  DriverHook(const DriverHook&) = delete;
  DriverHook& operator=(const DriverHook&) = delete;

  // False: the hook must only forward the call. Either the driver called itself, or the tracer made the call,
  // or the process is not traced.
  bool should_track() {
    return thread_.driver_depth == 1 && !thread_.is_busy() && is_traced(thread_) && is_ready();
  }
  // False if no context is current; the driver's call fails then.
  bool get_current(CurrentDevice& current);
  // Registers the device's UUID with the account, because another process may number the devices differently.
  void identify(unsigned device);
  // Bytes in use on the device by all processes, from NVML; read only while a recording is written. False if
  // unknown.
  bool used_of_device(unsigned device, std::uint64_t& bytes);
  // Whether a recording is written; false if only the ledger runs.
  bool records() { return is_recording(thread_); }
  // Bytes in use on the device by this process, from NVML. False if unknown.
  bool used_by_this_process(unsigned device, std::uint64_t& bytes);
  // Bytes of the device that the driver allocated for this process, computed from its graphs, pools and
  // granules. Managed memory is left out: it migrates, and NVML's figure for a process does not include it.
  std::int64_t allocated_bytes(unsigned device);
  // identify(), and describes the device to the ledger and the recording.
  void register_device(unsigned device);
  // Sets `where.device` to the device that holds the memory; no change if the driver does not know it.
  void find_device_of(std::uint64_t pointer, CurrentDevice& where);

  // Trims what graphs and pools keep but do not use, except the pool `except`.
  void trim_pools(unsigned device, std::uint64_t except = 0);
  static bool may_have_launched_graphs(unsigned device);
  // Charges the pool what the driver has reserved for it. False if the limit refuses that and `within_limit`
  // is set; then the charge stays as it was.
  bool update_pool_charge(std::uint64_t pool, unsigned device, bool within_limit = false);
  // Updates all pools that may have shrunk: a stream-ordered free completes when its stream reaches it.
  void update_pool_charges(unsigned device);
  void update_graph_charge(unsigned device);
  // Only if the device ever had a graph with memory: a launch allocates it.
  void update_launched_graph_charge(unsigned device);
  // For calls that do not lock: skips the update while another thread holds the driver lock.
  void try_update_launched_graph_charge(unsigned device);
  // Brings the graph charges in line with the driver's figures. Charges memory that was not foreseen. Drops
  // memory of destroyed graphs that is not live any more. With `records_found`, memory that is live but not
  // recorded yet is recorded as allocated by this call.
  void reconcile_graphs(unsigned device, bool records_found = false);
  // The driver keeps unused graph memory until it is trimmed. Under a limit it is trimmed, because it is
  // charged.
  void trim_graphs(unsigned device);
  // Frees what the driver kept of destroyed graphs, and discharges it.
  void trim_and_update_graphs(unsigned device);

  // Records the last refusal of this thread, and which processes hold the memory.
  void record_last_refusal();
  void record_allocation(const Entry& entry);
  void record_release(const Entry& entry, std::uint64_t time);
  void record_release(const Entry& entry) { record_release(entry, stamp()); }
  void record_figure(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes);
  std::uint64_t stamp();

 private:
  bool is_ready();
  ThreadLocal& thread_;
  CallFrame caller_;
};

inline Entry entry_of(EntryType type, DeviceMemoryKind kind, const CurrentDevice& where,
                      std::uint64_t bytes) {
  Entry entry;
  entry.type = type;
  entry.kind = kind;
  entry.device = static_cast<std::uint16_t>(where.device);
  entry.context = where.context;
  entry.bytes = bytes;
  return entry;
}

// `stream_ordered`: set for a stream-ordered free. In: the stream's context, if known. Out: the freed entry.
// `is_exclusive`: the caller holds the driver lock.
template <class Call>
driver::Result release(DriverHook& hook, EntryType type, std::uint64_t address, const Call& call,
                       Entry* stream_ordered = nullptr, bool is_exclusive = false) {
  Entry entry;
  const bool is_known = device_ledger.begin_release(type, address, entry, is_exclusive);
  const bool is_of_graph = is_known && entry.kind == DeviceMemoryKind::graph;
  const DriverLock lock(is_of_graph);
  const std::uint64_t time = hook.stamp();
  const driver::Result result = call();
  if (!is_known) return result;
  if (result != driver::kSuccess) {
    device_ledger.undo_release(entry);
    return result;
  }
  if (is_of_graph) {
    device_ledger.finish_orphan_release(entry);
    hook.trim_and_update_graphs(entry.device);
  } else {
    device_ledger.finish_release(entry, stream_ordered != nullptr,
                                 stream_ordered != nullptr ? stream_ordered->context : 0);
  }
  hook.record_release(entry, time);
  if (stream_ordered != nullptr) *stream_ordered = entry;
  return result;
}

// In the child after fork. The first two forget which devices and processes the parent described.
void reset_registrations_in_child();
void reset_refusals_in_child();
void reset_driver_calls_in_child();

// The driver's own function; null if the driver is not loaded or does not have it.
#define HEADROOM_REAL(name) \
  (::headroom::preload::driver::find_driver() ? ::headroom::preload::driver::real.name : nullptr)

// Defines the hook of a row of driver_calls.h: `run(hook, real, arguments…)` runs if the call is the
// program's; `real` is the driver's own function.
#define HEADROOM_DEFINE_HOOK(name, parameters, run, ...)         \
  HEADROOM_HOOK Result name parameters {                         \
    const auto real_function = HEADROOM_REAL(name);              \
    if (real_function == nullptr) return kNotFound;              \
    DriverHook hook(caller_of_this_function());                  \
    if (!hook.should_track()) return real_function(__VA_ARGS__); \
    return run(hook, real_function, __VA_ARGS__);                \
  }

}  // namespace headroom::preload
