#include "preload/device_hooks.h"

#include "preload/clock.h"
#include "preload/device_watch.h"

namespace headroom::preload {

constinit DriverCalls driver_calls;
constinit Lock driver_lock{Lock::Kind::recursive};

namespace {

std::atomic<std::uint64_t> graph_reserved_plus_1[ledger::kMaxDevices];

}  // namespace

void reset_driver_calls_in_child() {
  driver_lock.reset();
  for (auto& reserved_plus_1 : graph_reserved_plus_1) reserved_plus_1 = 0;
  driver_calls.ended = driver_calls.begun.load();
}

DriverLock::DriverLock(bool is_needed, bool is_unconditional)
    : is_needed_(is_needed), is_unconditional_(is_unconditional) {
  lock();
}
DriverLock::~DriverLock() { unlock(); }
void DriverLock::lock() {
  is_held_ = is_needed_ && (is_unconditional_ || is_gpu_memory_limited());
  if (is_held_) driver_lock.lock();
}
void DriverLock::unlock() {
  if (is_held_) driver_lock.unlock();
  is_held_ = false;
}

bool DriverHook::is_ready() { return account_is_open(thread_) && driver::find_driver(); }

// A graph is charged before it runs, and the driver keeps its memory after it ran. So what the driver really
// has for graphs replaces their charge.
std::int64_t DriverHook::allocated_bytes(unsigned device) {
  const std::uint64_t managed = device_ledger.figures(device, DeviceMemoryKind::managed).live_bytes;
  const auto charged = static_cast<std::int64_t>(device_ledger.account().charged_to_this_process(device) +
                                                 device_ledger.rounding_bytes(device) - managed);
  const std::uint64_t reserved_plus_1 =
      graph_reserved_plus_1[device % ledger::kMaxDevices].load(std::memory_order_relaxed);
  if (reserved_plus_1 == 0) return charged;
  const auto charged_for_graphs = static_cast<std::int64_t>(device_ledger.charged_for_graphs(device));
  return charged - charged_for_graphs + static_cast<std::int64_t>(reserved_plus_1 - 1);
}

void DriverHook::trim_pools(unsigned device, std::uint64_t except) {
  const DriverLock lock;
  reconcile_graphs(device);
  if (device_ledger.has_pending_graph_memory(device)) trim_and_update_graphs(device);
  if (driver::real.cuMemPoolTrimTo == nullptr) return;
  std::size_t position = 0;
  for (std::uint64_t pool = 0; (pool = device_ledger.pool_to_settle(device, position)) != 0; ++position) {
    if (pool == except) continue;
    driver::real.cuMemPoolTrimTo(reinterpret_cast<driver::Opaque>(pool), 0);
    update_pool_charge(pool, device);
  }
}

void DriverHook::update_pool_charges(unsigned device) {
  std::size_t position = 0;
  if (device_ledger.pool_to_settle(device, position) == 0) return;
  const DriverLock lock = DriverLock::unconditional();
  position = 0;
  for (std::uint64_t pool = 0; (pool = device_ledger.pool_to_settle(device, position)) != 0; ++position)
    update_pool_charge(pool, device);
}

bool DriverHook::update_pool_charge(std::uint64_t pool, unsigned device, bool within_limit) {
  std::uint64_t reserved = 0;
  if (driver::real.cuMemPoolGetAttribute == nullptr ||
      driver::real.cuMemPoolGetAttribute(reinterpret_cast<driver::Opaque>(pool), driver::kPoolReservedCurrent,
                                         &reserved) != driver::kSuccess)
    return true;
  const ledger::Ledger::Settled settled = device_ledger.settle_pool(pool, reserved, within_limit);
  if (settled.is_new)
    record_figure(device, DeviceMemoryKind::pool_reserved, device_ledger.reserved_by_pools(device));
  update_launched_graph_charge(device);
  return settled.fits;
}

bool DriverHook::may_have_launched_graphs(unsigned device) {
  return graph_reserved_plus_1[device % ledger::kMaxDevices].load(std::memory_order_relaxed) != 0;
}

void DriverHook::update_launched_graph_charge(unsigned device) {
  if (may_have_launched_graphs(device)) update_graph_charge(device);
}

void DriverHook::try_update_launched_graph_charge(unsigned device) {
  if (!may_have_launched_graphs(device) || !is_gpu_memory_limited() || !driver_lock.try_lock()) return;
  update_graph_charge(device);
  driver_lock.unlock();
}

void DriverHook::update_graph_charge(unsigned device) {
  std::uint64_t reserved = 0;
  std::atomic<std::uint64_t>& reserved_plus_1 = graph_reserved_plus_1[device % ledger::kMaxDevices];
  if (driver::real.cuDeviceGetGraphMemAttribute == nullptr ||
      driver::real.cuDeviceGetGraphMemAttribute(static_cast<driver::Device>(device),
                                                driver::kGraphReservedCurrent, &reserved) != driver::kSuccess)
    return;
  device_ledger.settle_graph_memory(device, reserved);
  // Stored plus 1: 0 means that the device never had a graph with memory.
  const std::uint64_t before = reserved_plus_1.exchange(reserved + 1);
  if (before == 0) watch_graphs();
  if (before != reserved + 1) record_figure(device, DeviceMemoryKind::graph_reserved, reserved);
}

void DriverHook::trim_graphs(unsigned device) {
  if (driver::real.cuDeviceGraphMemTrim != nullptr &&
      device_ledger.account().limit(device) != ledger::kNoLimit)
    driver::real.cuDeviceGraphMemTrim(static_cast<driver::Device>(device));
}

void DriverHook::trim_and_update_graphs(unsigned device) {
  trim_graphs(device);
  update_graph_charge(device);
}

// Launches are not hooked, so the driver is asked which memory is still mapped at its address.
void DriverHook::reconcile_graphs(unsigned device, bool records_found) {
  std::size_t position = 0;
  Entry orphan;
  const bool may_have_orphans = device_ledger.has_graph_orphans();
  if (!may_have_orphans && !may_have_launched_graphs(device)) return;
  const DriverLock lock;
  update_launched_graph_charge(device);
  if (!may_have_orphans || !device_ledger.next_graph_orphan(device, position, orphan)) return;
  bool has_dropped = false;
  trim_graphs(device);
  while (device_ledger.next_graph_orphan(device, position, orphan)) {
    int is_mapped = 1;
    const driver::Result result =
        driver::real.cuPointerGetAttribute == nullptr
            ? driver::kSuccess
            : driver::real.cuPointerGetAttribute(&is_mapped, driver::kPointerMapped, orphan.address);
    const bool was_known = orphan.references > 0;
    if (result == driver::kInvalidValue || (result == driver::kSuccess && is_mapped == 0)) {
      const bool is_dropped = device_ledger.drop_graph_orphan(orphan.address, orphan);
      if (is_dropped && was_known) record_release(orphan);
      has_dropped = has_dropped || is_dropped;
      continue;  // the next entry moved to this position
    }
    if (!was_known && records_found && device_ledger.keep_graph_orphan(orphan.address))
      record_allocation(orphan);
    ++position;
  }
  if (has_dropped) trim_and_update_graphs(device);
}

std::uint64_t DriverHook::stamp() {
  const Guard guard(thread_);
  if (!is_recording(thread_)) return 0;
  attach_before_stamp(thread_);
  return time_now();
}

void DriverHook::record_allocation(const Entry& entry) {
  const Guard guard(thread_);
  if (!is_recording(thread_)) return;
  record_device_allocation(thread_, entry.device, entry.kind, entry.address, entry.bytes, caller_);
}

void DriverHook::record_release(const Entry& entry, std::uint64_t time) {
  const Guard guard(thread_);
  if (!is_recording(thread_)) return;
  record_device_release(thread_, entry.device, entry.kind, entry.address, time);
}

void DriverHook::record_figure(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) {
  const Guard guard(thread_);
  if (!is_recording(thread_)) return;
  record_device_figure(thread_, device, kind, bytes);
}

}  // namespace headroom::preload
