// Charges requests before the driver allocates. If a limit refuses one, memory is reclaimed and the request
// is charged again.
#pragma once

#include "preload/device_hooks.h"

namespace headroom::preload::driver {

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
  entry.address = address();
  device_ledger.commit(entry);
  hook.record_allocation(entry);
  return result;
}

}  // namespace headroom::preload::driver
