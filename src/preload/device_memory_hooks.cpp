// Memory by pointer: cuMemAlloc and its variants, managed memory and pinned memory. Also cuMemGetInfo and
// cuDeviceTotalMem, which report free and total memory.

#include <algorithm>

#include "preload/device_hooks.h"

namespace headroom::preload::driver {

namespace {

// A small allocation that shares a granule with others. Its granule is known only after the driver's call. So
// the hook reserves bytes in a granule that has enough free ones, or charges a new granule. If the driver
// takes a new granule anyway, because the free bytes are in pieces, that granule is charged then, or
// the memory is freed.
//
// This holds the driver lock, because the driver may place another thread's allocation where this one has
// reserved bytes. `size()` is the real size, after the call.
template <class Call, class Bytes>
Result allocate_in_granule(DriverHook& hook, Entry entry, Pointer* pointer, const Call& call,
                           const Bytes& size) {
  const std::uint64_t granule = device_ledger.granule(entry.device);
  const bool is_limited = device_ledger.account().limit(entry.device) != ledger::kNoLimit;
  const std::uint64_t asked = entry.bytes;
  DriverLock lock(is_limited);
  const std::uint64_t held =
      is_limited ? device_ledger.reserve_in_granule(entry.device, entry.context, asked) : 0;
  const bool is_prepaid = is_limited && held == 0 && charge_granule(hook, entry.device, lock);
  if (is_limited && held == 0 && !is_prepaid) {
    refuse_granule(hook, entry);
    return kOutOfMemory;
  }
  const auto cancel_reservations = [&] {
    if (is_prepaid) device_ledger.account().discharge(entry.device, granule);
    device_ledger.cancel_in_granule(held, asked);
  };
  const Result result = call();
  if (result != kSuccess) {
    cancel_reservations();
    return result;
  }
  entry.address = *pointer;
  entry.bytes = size();
  // Only pitched memory: the rows are longer than expected, so the allocation shares no granule.
  if (!device_ledger.shares_granule(entry.device, entry.kind, entry.bytes)) {
    lock.unlock();  // the reservation may have to synchronize
    const bool is_granted = reserve(hook, entry.device, entry.kind, entry.bytes);
    cancel_reservations();
    if (!is_granted) {
      real.cuMemFree_v2(*pointer);
      *pointer = 0;
      return kOutOfMemory;
    }
    device_ledger.commit(entry);
    hook.record_allocation(entry);
    return kSuccess;
  }
  bool is_committed = device_ledger.commit_in_granule(entry, is_prepaid);
  device_ledger.cancel_in_granule(held, asked);
  if (!is_committed)
    is_committed = charge_granule(hook, entry.device, lock) && device_ledger.commit_in_granule(entry, true);
  lock.unlock();
  if (!is_committed) {
    real.cuMemFree_v2(*pointer);
    *pointer = 0;
    refuse_granule(hook, entry);
    return kOutOfMemory;
  }
  hook.record_allocation(entry);
  return kSuccess;
}

Result allocate_pointer(DriverHook& hook, auto call, Pointer* pointer, std::size_t bytes) {
  CurrentDevice where;
  if (pointer == nullptr || bytes == 0 || !hook.get_current(where)) return call(pointer, bytes);
  const Entry entry = entry_of(EntryType::pointer, DeviceMemoryKind::device, where, bytes);
  const auto call_driver = [&] { return call(pointer, bytes); };
  if (device_ledger.shares_granule(where.device, entry.kind, bytes))
    return allocate_in_granule(hook, entry, pointer, call_driver, [&] { return bytes; });
  return allocate(hook, entry, call_driver, [&] { return *pointer; });
}

// The driver rounds row lengths up to a step: 512 bytes on all GPUs that were tested.
constexpr std::size_t kRowStep = 512;

// If the driver's rows are longer than the step predicts, the difference is charged after the call. If the
// limit refuses that, the memory is freed.
Result allocate_rows(DriverHook& hook, auto call, Pointer* pointer, std::size_t* pitch, std::size_t width,
                     std::size_t height, unsigned element) {
  CurrentDevice where;
  std::uint64_t wanted = 0, bytes = 0;
  if (pointer == nullptr || pitch == nullptr || !hook.get_current(where))
    return call(pointer, pitch, width, height, element);
  std::uint64_t row = 0;
  // A size that overflows 64 bits is left for the driver to reject.
  if (__builtin_add_overflow(width, kRowStep - 1, &row) ||
      __builtin_mul_overflow(row / kRowStep * kRowStep, height, &wanted))
    return call(pointer, pitch, width, height, element);
  constexpr auto kKind = DeviceMemoryKind::device;
  const auto call_driver = [&] { return call(pointer, pitch, width, height, element); };
  Entry entry = entry_of(EntryType::pointer, kKind, where, wanted);
  if (device_ledger.shares_granule(where.device, kKind, wanted))
    return allocate_in_granule(hook, entry, pointer, call_driver, [&] { return *pitch * height; });
  if (!reserve(hook, where.device, kKind, wanted)) return kOutOfMemory;
  const Result result = call_driver();
  if (result != kSuccess || __builtin_mul_overflow(*pitch, height, &bytes)) {
    device_ledger.cancel(where.device, kKind, wanted);
    return result;
  }
  if (!device_ledger.change_reservation(where.device, kKind, wanted, bytes)) {
    hook.record_last_refusal();
    real.cuMemFree_v2(*pointer);
    *pointer = 0;
    device_ledger.cancel(where.device, kKind, wanted);
    return kOutOfMemory;
  }
  entry.bytes = bytes;
  commit_and_record(hook, entry, *pointer);
  return result;
}

Result allocate_managed(DriverHook& hook, auto call, Pointer* pointer, std::size_t bytes, unsigned flags) {
  CurrentDevice where;
  if (pointer == nullptr || !hook.get_current(where)) return call(pointer, bytes, flags);
  return allocate(
      hook, entry_of(EntryType::pointer, DeviceMemoryKind::managed, where, bytes),
      [&] { return call(pointer, bytes, flags); }, [&] { return *pointer; });
}

Result free_pointer(DriverHook& hook, auto call, Pointer pointer) {
  return release(hook, EntryType::pointer, pointer, [&] { return call(pointer); });
}

Result allocate_host(DriverHook& hook, auto call, void** pointer, std::size_t bytes, auto... flags) {
  CurrentDevice where;
  if (pointer == nullptr || !hook.get_current(where)) return call(pointer, bytes, flags...);
  return allocate(
      hook, entry_of(EntryType::pointer, DeviceMemoryKind::pinned_host, where, bytes),
      [&] { return call(pointer, bytes, flags...); }, [&] { return number_of(*pointer); });
}

Result free_host(DriverHook& hook, auto call, void* pointer) {
  return release(hook, EntryType::pointer, number_of(pointer), [&] { return call(pointer); });
}

Result register_host(DriverHook& hook, auto call, void* pointer, std::size_t bytes, unsigned flags) {
  CurrentDevice where;
  const bool is_known = pointer != nullptr && hook.get_current(where);
  const Result result = call(pointer, bytes, flags);
  if (result != kSuccess || !is_known) return result;
  Entry entry = entry_of(EntryType::pointer, DeviceMemoryKind::registered_host, where, bytes);
  entry.address = number_of(pointer);
  device_ledger.commit(entry, false);
  hook.record_allocation(entry);
  return result;
}

// A file descriptor of memory at an address (a dma-buf). Its owner keeps the memory even after the address is
// freed.
Result export_range(DriverHook& hook, auto call, void* handle, Pointer pointer, std::size_t bytes, int type,
                    unsigned long long flags) {
  const Pointer base = base_of(pointer);
  ExportCharge charge(hook, base);
  if (!charge.is_granted()) return kOutOfMemory;
  const Result result = call(handle, pointer, bytes, type, flags);
  if (result != kSuccess) return result;
  charge.keep();
  device_ledger.mark_exported(base, pointer + bytes - base);
  return result;
}

// Under a limit, reports the limit as the total, and what is left of it as free.
Result get_info(DriverHook& hook, auto call, std::size_t* free, std::size_t* total) {
  CurrentDevice where;
  const Result result = call(free, total);
  if (result != kSuccess || free == nullptr || total == nullptr || !hook.get_current(where)) return result;
  ledger::Account& account = device_ledger.account();
  const std::uint64_t limit = account.limit(where.device);
  if (limit == ledger::kNoLimit) return result;
  hook.reconcile_graphs(where.device);
  if (device_ledger.has_pending_graph_memory(where.device)) {
    const DriverLock lock;
    hook.trim_and_update_graphs(where.device);
  }
  hook.update_pool_charges(where.device);  // stream-ordered frees may have completed
  const std::uint64_t left = std::min(limit, account.tightest_limit(where.device).left());
  *total = std::min(*total, limit);
  *free = std::min(*free, left);
  return result;
}

Result get_total(DriverHook& hook, auto call, std::size_t* total, Device device) {
  const Result result = call(total, device);
  if (result != kSuccess || total == nullptr || device < 0) return result;
  hook.identify(static_cast<unsigned>(device));
  *total = std::min(*total, device_ledger.account().limit(static_cast<unsigned>(device)));
  return result;
}

}  // namespace

HEADROOM_MEMORY_CALLS(HEADROOM_DEFINE_HOOK)

// Memory that another process or another API allocated: recorded where it is used, charged where it was
// allocated.

Entry imported_entry(DriverHook& hook, Pointer pointer, CurrentDevice where) {
  Pointer base = 0;
  std::size_t bytes = 0;
  real.cuMemGetAddressRange_v2(&base, &bytes, pointer);
  hook.find_device_of(pointer, where);
  Entry entry = entry_of(EntryType::pointer, DeviceMemoryKind::imported, where, bytes);
  entry.address = pointer;
  return entry;
}

namespace {

// A process that opens the handle keeps the memory until it closes it, even if this process frees the memory.
Result get_ipc_handle(DriverHook&, auto call, IpcHandle* handle, Pointer pointer) {
  const Result result = call(handle, pointer);
  if (result == kSuccess) device_ledger.mark_exported(base_of(pointer), 1);
  return result;
}

Result open_ipc(DriverHook& hook, auto call, Pointer* pointer, const IpcHandle& handle, unsigned flags) {
  CurrentDevice where;
  const Result result = call(pointer, handle, flags);
  if (result != kSuccess || pointer == nullptr || !hook.get_current(where)) return result;
  const Entry entry = imported_entry(hook, *pointer, where);
  // Opening a handle again returns the same address, and each open needs its own close.
  if (!device_ledger.add_reference_or_commit(entry)) hook.record_allocation(entry);
  return result;
}

Result close_ipc(DriverHook& hook, auto call, Pointer pointer) {
  if (device_ledger.is_last_else_drop_reference(pointer))
    return release(hook, EntryType::pointer, pointer, [&] { return call(pointer); });
  const Result result = call(pointer);
  if (result != kSuccess) device_ledger.add_reference(pointer);
  return result;
}

Result import_memory(DriverHook& hook, auto call, Opaque* memory, const ExternalMemoryHandle* handle) {
  CurrentDevice where;
  if (memory == nullptr || handle == nullptr || !hook.get_current(where)) return call(memory, handle);
  return allocate(
      hook, entry_of(EntryType::external_memory, DeviceMemoryKind::imported, where, handle->size),
      [&] { return call(memory, handle); }, [&] { return number_of(*memory); });
}

Result destroy_imported(DriverHook& hook, auto call, Opaque memory) {
  return release(hook, EntryType::external_memory, number_of(memory), [&] { return call(memory); });
}

}  // namespace

HEADROOM_IMPORT_CALLS(HEADROOM_DEFINE_HOOK)

}  // namespace headroom::preload::driver
