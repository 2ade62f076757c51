// What every hook of a GPU's driver does: asks the ledger, calls the driver, tells the ledger and the
// recording.
//
// While the driver works the thread's guard is down: what the driver allocates on the heap is the process',
// and is recorded. `driver_depth` keeps a driver that calls its own exported functions from being counted
// twice.
#pragma once

#include <span>

#include "ledger/ledger.h"
#include "model/device_memory.h"
#include "tracer/call_frame.h"
#include "tracer/driver_calls.h"
#include "tracer/process.h"
#include "tracer/recorder.h"
#include "tracer/thread_state.h"

namespace headroom::tracer {

using ledger::Entry;
using ledger::EntryType;

extern ledger::Ledger& device_ledger;

// The context that is current, and its device.
struct CurrentDevice {
  std::uint64_t context = 0;
  unsigned device = 0;
};

class DriverHook;
namespace driver {
// After fork, in the child: a parent's contexts are not its own.
void reset_contexts_in_child();
// The context itself, or the primary one that a green context is a part of.
std::uint64_t context_that_owns(std::uint64_t context);
// The legacy and the per-thread one have numbers that are no handles: they are the current context's.
inline bool is_default_stream(const void* stream) { return reinterpret_cast<std::uint64_t>(stream) <= 2; }
// Of who has retained it for a while: he may be the last.
void give_up_primary(DriverHook& hook, Device device);
// The graph of a capture that will not be ended; 0: it had none of its own.
void forget_captured(DriverHook& hook, std::uint64_t graph);
// And the device and its primary context; false: it is of none.
bool is_of_green_context(Opaque stream, CurrentDevice& where);
// That has to be waited for until the device has come to what is in the stream; 0: it is not known.
std::uint64_t context_of_stream(Opaque stream);
}  // namespace driver

// Of any device.
bool is_gpu_memory_limited();

// After fork, in the child: which names are in the recording.
void reset_refusals_in_child();

// A driver was loaded where no hook stands in front of it: the account says so.
void note_driver_out_of_reach();

// Hooks that stand, of all threads: while none does, what the ledger has and what the driver gave are the
// same.
struct DriverCalls {
  std::atomic<std::uint64_t> begun{0}, ended{0};
};
extern constinit DriverCalls driver_calls;

// Under a limit one call at a time reaches the driver's pools and the memory of its graphs, so that what the
// driver tells of them is of the moment when it is used: by a figure from before another thread's call too
// little would be charged. Calls by pointer, handle and array, which are charged what they ask for, do not
// wait. Who holds it may take it again; nothing is waited for meanwhile but the driver's own call.
class DriverOrder {
 public:
  explicit DriverOrder(bool is_needed = true) : DriverOrder(is_needed, false) {}
  // Without a limit, too: for a moment, so that no pool is asked about while another thread destroys it.
  static DriverOrder for_pools() { return DriverOrder(true, true); }
  ~DriverOrder();
  bool holds() const { return holds_; }
  // For who has to wait for what may wait for a thread that wants the order.
  void give_up();
  void take_again();
  DriverOrder(const DriverOrder&) = delete;
  DriverOrder& operator=(const DriverOrder&) = delete;

 private:
  DriverOrder(bool is_needed, bool without_limit);
  bool is_needed_, without_limit_, holds_ = false;
};
// For who does not wait: false where another thread has it.
bool try_driver_order();
void end_driver_order();

// Stands in a hook for as long as it runs.
class DriverHook {
 public:
  DriverHook() : thread_(thread_local_state) {
    ++thread_.driver_depth;
    driver_calls.begun.fetch_add(1, std::memory_order_acq_rel);
  }
  ~DriverHook() {
    driver_calls.ended.fetch_add(1, std::memory_order_acq_rel);
    --thread_.driver_depth;
  }
  DriverHook(const DriverHook&) = delete;
  DriverHook& operator=(const DriverHook&) = delete;

  // False: only forward. The driver called itself, the tracer works, or nothing was asked for.
  bool counts() {
    return thread_.driver_depth == 1 && !thread_.is_busy() && is_traced(thread_) && is_ready();
  }
  // False where there is none; then the driver's call will fail.
  bool get_current(CurrentDevice& current);
  // Makes the device known to the account, by its UUID: another process may count the devices otherwise.
  void identify(unsigned device);
  // What is in use on it, by all processes, as NVML tells; asked where a recording has the answer. False if
  // it is not known.
  bool used_of_device(unsigned device, std::uint64_t& bytes);
  // Whether somebody reads the figures: a recording, not the ledger alone.
  bool records() { return is_recording(thread_); }
  // The same of this process.
  bool used_by_this_process(unsigned device, std::uint64_t& bytes);
  // What the driver gave this process of the device, for all that is known of graphs, pools and granules,
  // without managed memory: that lies now here, now there, and NVML's figure of a process has none of it.
  std::int64_t given_bytes(unsigned device);
  // As identify(), and to the ledger and the recording.
  void meet(unsigned device);
  // That on which the memory lies, whichever is current; as it was where the driver does not tell.
  void find_device_of(std::uint64_t pointer, CurrentDevice& where);

  // Before the driver is asked. False: refused, and recorded so.
  bool reserve(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes, const CallFrame& caller);
  // Charges a granule, in case that what is asked for next needs one. False: there is no room for it.
  bool pay_granule(unsigned device, DriverOrder& order);
  void refuse_granule(const Entry& entry, const CallFrame& caller);
  void record_last_refusal(const CallFrame& caller);  // of this thread, by the ledger, with who held the rest
  // Tries to find room by giving back what pools and graphs keep and nobody uses.
  void settle_pools(unsigned device, std::uint64_t except = 0);
  // The same, for who may wait until what was freed in the order of a stream is free.
  void make_room(unsigned device);
  static bool may_have_launched_graphs(unsigned device);
  // The program waits for a context: what was freed in the order of its streams is free then.
  template <class Call>
  driver::Result wait_as_asked(driver::Opaque context, const Call& call);
  // What the pool has of the device is charged from now on. False if the limit has no room for that and
  // `keeps_limit` is set; then it is not.
  bool look_at_pool(std::uint64_t pool, unsigned device, bool keeps_limit = false);
  // All that may have given back: what is freed in the order of a stream goes at its end.
  void look_at_pools(unsigned device);
  void look_at_graphs(unsigned device);
  // If the device ever had a graph with memory: a launch gets it.
  void look_at_launched_graphs(unsigned device);
  // What graphs got and left, as the driver tells: charges what was not foreseen, takes back what is not live
  // of those that were destroyed, and records what is as made by `caller`, if there is one.
  void settle_graphs(unsigned device, const CallFrame* caller);
  // What graphs no longer use stays with the device until it is told to trim: no part of a limit may stay
  // there.
  void trim_graphs(unsigned device);
  // Of graphs that were destroyed: what the driver kept of them is given back, and charged no more.
  void settle_leaving_graphs(unsigned device);

  void record_allocation(const Entry& entry, const CallFrame& caller);
  void record_release(const Entry& entry, std::uint64_t time);
  void record_release(const Entry& entry) { record_release(entry, stamp()); }
  void record_figure(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes);
  std::uint64_t stamp();

 private:
  bool is_ready();
  // Before a call that does not wait for others: it is not looked at while another thread has the order.
  void look_at_launched_graphs_unless_busy(unsigned device);
  bool has_something_to_settle(unsigned device);
  void wait_for_what_was_freed();
  ThreadLocal& thread_;
};

inline std::uint64_t number_of(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }

template <class Call>
driver::Result DriverHook::wait_as_asked(driver::Opaque context, const Call& call) {
  const std::uint64_t number = number_of(context);
  // In a green context it is for a part of what the primary one has.
  if (context == nullptr || driver::context_that_owns(number) != number) return call();
  const std::uint64_t wait = device_ledger.begin_wait(number);
  const driver::Result result = call();
  if (result == driver::kSuccess)
    device_ledger.finish_wait(number, wait);
  else
    device_ledger.cancel_wait(wait);
  return result;
}

// Where the allocation begins that this lies in, as the driver tells; else as it is.
driver::Pointer base_of(driver::Pointer pointer);

// Memory of a pool or a graph that somebody else is about to get by a way that does not tell when it ends: it
// is charged once more, as nothing of the pool's own figures tells of it, until the process ends. Of any
// other memory it is nothing.
class SharedPart {
 public:
  SharedPart(DriverHook& hook, driver::Pointer pointer, const CallFrame& caller);
  ~SharedPart();  // without keep(): the driver made nothing of it
  SharedPart(const SharedPart&) = delete;
  SharedPart& operator=(const SharedPart&) = delete;
  bool is_granted() const { return is_granted_; }
  void keep();

 private:
  Entry part_;
  bool is_granted_ = true;
};

inline Entry entry_of(EntryType type, DeviceMemoryKind kind, const CurrentDevice& where, std::uint64_t bytes) {
  Entry entry;
  entry.type = type;
  entry.kind = kind;
  entry.device = static_cast<std::uint16_t>(where.device);
  entry.context = where.context;
  entry.bytes = bytes;
  return entry;
}

// An allocation of one call. `call()` is the driver's, `address()` what it gave.
template <class Call, class Address>
driver::Result allocate(DriverHook& hook, Entry entry, const CallFrame& caller, const Call& call,
                        const Address& address) {
  if (!hook.reserve(entry.device, entry.kind, entry.bytes, caller)) return driver::kOutOfMemory;
  const driver::Result result = call();
  if (result != driver::kSuccess) {
    device_ledger.cancel(entry.device, entry.kind, entry.bytes);
    return result;
  }
  entry.address = address();
  device_ledger.commit(entry);
  hook.record_allocation(entry, caller);
  return result;
}

// `in_order`: freed in the order of a stream, of its context if that is known; it becomes what was freed.
// `is_alone`: the caller has the order.
template <class Call>
driver::Result release(DriverHook& hook, EntryType type, std::uint64_t address, const Call& call,
                       Entry* in_order = nullptr, bool is_alone = false) {
  Entry entry;
  const bool is_known = device_ledger.begin_release(type, address, entry, is_alone);
  const bool is_of_graph = is_known && entry.kind == DeviceMemoryKind::graph;
  const DriverOrder order(is_of_graph);
  const std::uint64_t time = hook.stamp();
  const driver::Result result = call();
  if (!is_known) return result;
  if (result != driver::kSuccess) {
    device_ledger.undo_release(entry);
    return result;
  }
  if (is_of_graph) {
    device_ledger.finish_orphan_release(entry);
    hook.settle_leaving_graphs(entry.device);
  } else {
    device_ledger.finish_release(entry, in_order != nullptr, in_order != nullptr ? in_order->context : 0);
  }
  hook.record_release(entry, time);
  if (in_order != nullptr) *in_order = entry;
  return result;
}

// Forwards a call that is the driver's own doing or nobody's business; `real` may be absent in an old driver.
#define HEADROOM_REAL(name) \
  (::headroom::tracer::driver::find_driver() ? ::headroom::tracer::driver::real.name : nullptr)

}  // namespace headroom::tracer
