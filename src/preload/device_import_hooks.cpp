// Memory that another process or another API allocated: recorded where it is used, charged where it was
// allocated.
#include "preload/device_reclaim.h"

namespace headroom::preload::driver {
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
  Pointer base = 0;
  std::size_t bytes = 0;
  if (real.cuMemGetAddressRange_v2 != nullptr) real.cuMemGetAddressRange_v2(&base, &bytes, *pointer);
  hook.find_device_of(*pointer, where);
  Entry entry = entry_of(EntryType::pointer, DeviceMemoryKind::imported, where, bytes);
  entry.address = *pointer;
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
