// What every hook of a CUDA driver function does: it asks the ledger, calls the driver, then updates the
// ledger and the recording.
//
// While the driver runs, the thread's guard is down: heap memory that the driver allocates belongs to the
// process and is recorded. The driver also calls its own exported functions; `driver_depth` keeps those calls
// from being counted twice.
#pragma once

#include <span>

#include "ledger/ledger.h"
#include "preload/device_contexts.h"
#include "preload/driver_calls.h"
#include "preload/process.h"
#include "preload/recorder.h"
#include "preload/stack_walk.h"
#include "preload/threads.h"
#include "types/lock.h"
#include "types/memory_event.h"

namespace headroom::preload {

using ledger::Entry;
using ledger::EntryType;

// The ledger of this process. It is charged to the command's shared account, or to a private one.
extern ledger::Ledger& device_ledger;

// Opens the account at the first call. False if that failed.
bool account_is_open(ThreadLocal& thread);
// Whether any device has a limit.
bool is_gpu_memory_limited();
// Notes in the account that a driver was loaded where no hook can intercept its functions.
void note_unhooked_driver();
// In the child after fork. False if this process never had an account.
bool reset_account_in_child();

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
  explicit DriverLock(bool is_needed = is_gpu_memory_limited()) : is_needed_(is_needed) { lock(); }
  // Locks even without a limit: so no thread asks about a pool while another one destroys it.
  static DriverLock unconditional() { return DriverLock(true); }
  ~DriverLock() { unlock(); }
  bool is_held() const { return is_held_; }
  // Unlock before blocking on work that may need a thread that wants this lock; then lock again.
  void unlock() {
    if (is_held_) driver_lock.unlock();
    is_held_ = false;
  }
  void lock() {
    if (is_needed_) driver_lock.lock();
    is_held_ = is_needed_;
  }
  DriverLock(const DriverLock&) = delete;
  DriverLock& operator=(const DriverLock&) = delete;

 private:
  bool is_needed_, is_held_ = false;
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
  // Sets `where.device` to that of the location. False: the location is no device; no change.
  bool find_device_at(const cuda::Location& location, CurrentDevice& where);

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
  // Asks NVML about the device. False if it does not answer, or nothing is recorded.
  bool ask_nvml(bool (*ask)(const std::uint8_t (&)[16], std::uint64_t&), unsigned device,
                std::uint64_t& bytes);
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

inline void commit_and_record(DriverHook& hook, Entry entry, std::uint64_t address) {
  entry.address = address;
  device_ledger.commit(entry);
  hook.record_allocation(entry);
}

// `stream_ordered`: set for a stream-ordered free. In: the stream's context, if known. Out: the freed entry.
// `is_exclusive`: the caller holds the driver lock.
template <class Call>
driver::Result release(DriverHook& hook, EntryType type, std::uint64_t address, const Call& call,
                       Entry* stream_ordered = nullptr, bool is_exclusive = false) {
  Entry entry;
  const bool is_known = device_ledger.begin_release(type, address, entry, is_exclusive);
  const bool is_of_graph = is_known && entry.kind == DeviceMemoryKind::graph;
  const DriverLock lock(is_of_graph && is_gpu_memory_limited());
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
  (::headroom::preload::driver::find_driver() ? ::headroom::preload::driver::real.name.pointer : nullptr)

// Parameters of these types, with names; and the names alone.
#define HEADROOM_PARAMETERS(T, ...) T a __VA_OPT__(, HEADROOM_PARAMETERS_2(__VA_ARGS__))
#define HEADROOM_PARAMETERS_2(T, ...) T b __VA_OPT__(, HEADROOM_PARAMETERS_3(__VA_ARGS__))
#define HEADROOM_PARAMETERS_3(T, ...) T c __VA_OPT__(, HEADROOM_PARAMETERS_4(__VA_ARGS__))
#define HEADROOM_PARAMETERS_4(T, ...) T d __VA_OPT__(, HEADROOM_PARAMETERS_5(__VA_ARGS__))
#define HEADROOM_PARAMETERS_5(T, ...) T e __VA_OPT__(, HEADROOM_PARAMETERS_6(__VA_ARGS__))
#define HEADROOM_PARAMETERS_6(T, ...) T f __VA_OPT__(, HEADROOM_PARAMETERS_7(__VA_ARGS__))
#define HEADROOM_PARAMETERS_7(T, ...) T g __VA_OPT__(, HEADROOM_PARAMETERS_8(__VA_ARGS__))
#define HEADROOM_PARAMETERS_8(T) T h
#define HEADROOM_ARGUMENTS(T, ...) a __VA_OPT__(, HEADROOM_ARGUMENTS_2(__VA_ARGS__))
#define HEADROOM_ARGUMENTS_2(T, ...) b __VA_OPT__(, HEADROOM_ARGUMENTS_3(__VA_ARGS__))
#define HEADROOM_ARGUMENTS_3(T, ...) c __VA_OPT__(, HEADROOM_ARGUMENTS_4(__VA_ARGS__))
#define HEADROOM_ARGUMENTS_4(T, ...) d __VA_OPT__(, HEADROOM_ARGUMENTS_5(__VA_ARGS__))
#define HEADROOM_ARGUMENTS_5(T, ...) e __VA_OPT__(, HEADROOM_ARGUMENTS_6(__VA_ARGS__))
#define HEADROOM_ARGUMENTS_6(T, ...) f __VA_OPT__(, HEADROOM_ARGUMENTS_7(__VA_ARGS__))
#define HEADROOM_ARGUMENTS_7(T, ...) g __VA_OPT__(, HEADROOM_ARGUMENTS_8(__VA_ARGS__))
#define HEADROOM_ARGUMENTS_8(T) h

// Defines the hook of a row of driver_calls.h: `run(hook, real, arguments…)` runs if the call is the
// program's; `real` is the driver's own function.
#define HEADROOM_DEFINE_HOOK(name, run, ...)                                         \
  HEADROOM_HOOK Result name(HEADROOM_PARAMETERS(__VA_ARGS__)) {                      \
    const auto real_function = HEADROOM_REAL(name);                                  \
    if (real_function == nullptr) return kNotFound;                                  \
    DriverHook hook(caller_of_this_function());                                      \
    if (!hook.should_track()) return real_function(HEADROOM_ARGUMENTS(__VA_ARGS__)); \
    return run(hook, real_function, HEADROOM_ARGUMENTS(__VA_ARGS__));                \
  }

namespace driver {

// --- Charges requests before the driver allocates. If a limit refuses one, memory is reclaimed and the
// request is charged again.

// Charges a request before the driver's call. False: the limit refused it; the refusal is recorded.
bool reserve(DriverHook& hook, unsigned device, DeviceMemoryKind kind, std::uint64_t bytes);
// Charges a granule in case the next request needs a new one. False: the limit refused it. Unlocks and
// relocks `lock` if it has to reclaim memory first.
bool charge_granule(DriverHook& hook, unsigned device, DriverLock& lock);
void refuse_granule(DriverHook& hook, const Entry& entry);
// Synchronizes so that pending frees complete, then trims what graphs and pools keep. The driver does the
// same before it reports that a device is full. Call it without the driver lock.
void reclaim_memory(DriverHook& hook, unsigned device);

// The start of the allocation that contains this pointer; the pointer itself if the driver does not know it.
Pointer base_of(Pointer pointer);

// The entry of memory that another process or API allocated, and that the driver maps at this pointer.
Entry imported_entry(DriverHook& hook, Pointer pointer, CurrentDevice where);

// Charges memory of a pool or graph a second time when the program exports it, until the process ends. The
// tracer does not learn when the importer releases it, and the pool's figures do not show it. Other memory
// needs no second charge.
class ExportCharge {
 public:
  ExportCharge(DriverHook& hook, Pointer pointer);
  ~ExportCharge();  // cancels the charge unless keep() was called
  ExportCharge(const ExportCharge&) = delete;
  ExportCharge& operator=(const ExportCharge&) = delete;
  bool is_granted() const { return is_granted_; }
  void keep();

 private:
  Entry charge_;
  bool is_granted_ = true;
};

// One allocation. `call()` calls the driver; `address()` returns the address that the driver returned.
template <class Call, class Address>
Result allocate(DriverHook& hook, Entry entry, const Call& call, const Address& address) {
  if (!reserve(hook, entry.device, entry.kind, entry.bytes)) return kOutOfMemory;
  const Result result = call();
  if (result != kSuccess) {
    device_ledger.cancel(entry.device, entry.kind, entry.bytes);
    return result;
  }
  commit_and_record(hook, entry, address());
  return result;
}

// --- The driver's own memory for contexts and modules (device_watch.cpp): figures of their own, and never
// part of the recorded allocations.

// This process's memory, from NVML, minus everything that is accounted for. False where NVML has no figure,
// or where another driver call may have been running: the driver allocates before or after the ledger knows.
bool measure_unexplained(DriverHook& hook, unsigned device, std::int64_t& bytes);
// Adds a context that took `bytes`. `is_provisional`: the next sample corrects that figure.
void count_context(DriverHook& hook, unsigned device, std::uint64_t number, std::int64_t bytes,
                   bool is_provisional);
// With the last context of a device, the driver frees everything that it had for contexts and modules there.
void forget_context(DriverHook& hook, std::uint64_t number);
// `grown` is the change of the driver's memory for modules.
void count_modules(DriverHook& hook, unsigned device, std::int64_t grown);
// Starts sampling a device that has a context. Does nothing without a recording.
void watch_device(unsigned device);
// Starts sampling graph memory: a device has its first graph with memory.
void watch_graphs();
// In the child after fork, which does not have the sampling thread.
void reset_watch_in_child();

}  // namespace driver
}  // namespace headroom::preload
