#include "preload/device_reclaim.h"

#include "preload/device_context_end.h"

namespace headroom::preload::driver {

namespace {

bool has_reclaimable_memory(unsigned device) {
  std::size_t position = 0;
  return device_ledger.pool_to_settle(device, position) != 0 || device_ledger.has_graph_orphans() ||
         device_ledger.has_pending_graph_memory(device) || device_ledger.has_pending_frees();
}

// Makes the primary context current, in place of a green context that is a part of it. A synchronize in a
// green context would wait for that part alone.
class PrimaryContextScope {
 public:
  PrimaryContextScope(DriverHook& hook, const CurrentDevice& where)
      : hook_(hook), device_(static_cast<Device>(where.device)) {
    const Real& functions = real;
    Opaque current = nullptr, primary = nullptr;
    if (functions.cuCtxGetCurrent(&current) != kSuccess || number_of(current) == where.context) {
      is_current_ = current != nullptr;
      return;
    }
    if (functions.cuDevicePrimaryCtxRetain == nullptr || functions.cuDevicePrimaryCtxRelease_v2 == nullptr ||
        functions.cuCtxPushCurrent_v2 == nullptr || functions.cuCtxPopCurrent_v2 == nullptr ||
        functions.cuDevicePrimaryCtxRetain(&primary, device_) != kSuccess)
      return;
    is_retained_ = true;
    is_current_ = is_pushed_ = functions.cuCtxPushCurrent_v2(primary) == kSuccess;
  }
  ~PrimaryContextScope() {
    Opaque popped = nullptr;
    if (is_pushed_) real.cuCtxPopCurrent_v2(&popped);
    if (is_retained_) release_retained_primary(hook_, device_);
  }
  PrimaryContextScope(const PrimaryContextScope&) = delete;
  PrimaryContextScope& operator=(const PrimaryContextScope&) = delete;
  bool is_current() const { return is_current_; }

 private:
  DriverHook& hook_;
  Device device_;
  bool is_current_ = false, is_pushed_ = false, is_retained_ = false;
};

// Called without the driver lock: the work may wait for a thread that wants the lock. Does nothing while a
// stream is captured, because a synchronize would end the capture.
void wait_for_pending_frees(DriverHook& hook) {
  CurrentDevice where;
  if (real.cuCtxSynchronize == nullptr || device_ledger.has_captures() || !hook.get_current(where)) return;
  const PrimaryContextScope scope(hook, where);
  if (!scope.is_current()) return;
  const std::uint64_t wait = device_ledger.begin_wait(where.context);
  const bool may_wait = !device_ledger.has_captures();  // a capture may have begun meanwhile
  if (may_wait && real.cuCtxSynchronize() == kSuccess)
    device_ledger.finish_wait(where.context, wait);
  else
    device_ledger.cancel_wait(wait);
}

}  // namespace

void reclaim_memory(DriverHook& hook, unsigned device) {
  if (device_ledger.account().limit(device) == ledger::kNoLimit || !has_reclaimable_memory(device)) return;
  wait_for_pending_frees(hook);
  hook.trim_pools(device);
}

bool reserve(DriverHook& hook, unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) {
  if (device_ledger.is_charged(device, kind)) hook.try_update_launched_graph_charge(device);
  if (device_ledger.try_reserve(device, kind, bytes)) return true;
  reclaim_memory(hook, device);
  if (device_ledger.reserve(device, kind, bytes)) return true;
  hook.record_last_refusal();
  return false;
}

bool charge_granule(DriverHook& hook, unsigned device, DriverLock& lock) {
  hook.try_update_launched_graph_charge(device);
  const std::uint64_t bytes = device_ledger.granule(device);
  if (device_ledger.account().reserve(device, bytes)) return true;
  lock.unlock();
  reclaim_memory(hook, device);
  lock.lock();
  return device_ledger.account().reserve(device, bytes);
}

void refuse_granule(DriverHook& hook, const Entry& entry) {
  device_ledger.refuse(entry.device, entry.kind, entry.bytes, device_ledger.granule(entry.device));
  hook.record_last_refusal();
}

Pointer base_of(Pointer pointer) {
  Pointer base = 0;
  std::size_t bytes = 0;
  const auto get = real.cuMemGetAddressRange_v2;
  return get != nullptr && get(&base, &bytes, pointer) == kSuccess ? base : pointer;
}

ExportCharge::ExportCharge(DriverHook& hook, Pointer pointer) {
  if (device_ledger.begin_export(pointer, charge_)) return;
  reclaim_memory(hook, charge_.device);
  if (device_ledger.begin_export(pointer, charge_)) return;
  is_granted_ = false;
  device_ledger.refuse(charge_.device, charge_.kind, charge_.charged);
  charge_ = Entry{};
  hook.record_last_refusal();
}
ExportCharge::~ExportCharge() { device_ledger.undo_export(charge_); }
void ExportCharge::keep() {
  device_ledger.finish_export(charge_);
  charge_ = Entry{};
}

}  // namespace headroom::preload::driver
