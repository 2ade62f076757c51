// Memory that another process or another API allocated: recorded where it is used, charged where it was
// allocated.
#include "preload/device_hooks.h"

namespace headroom::preload::driver {
namespace {

Result open_ipc(Result (*call)(Pointer*, IpcHandle, unsigned), Pointer* pointer, const IpcHandle& handle,
                unsigned flags, const CallFrame& caller) {
  DriverHook hook;
  CurrentDevice where;
  if (call == nullptr) return kNotFound;
  const Result result = call(pointer, handle, flags);
  if (result != kSuccess || pointer == nullptr || !hook.should_track() || !hook.get_current(where))
    return result;
  Pointer base = 0;
  std::size_t bytes = 0;
  if (real.cuMemGetAddressRange_v2 != nullptr) real.cuMemGetAddressRange_v2(&base, &bytes, *pointer);
  hook.find_device_of(*pointer, where);
  Entry entry = entry_of(EntryType::pointer, DeviceMemoryKind::imported, where, bytes);
  entry.address = *pointer;
  // Opening a handle again returns the same address, and each open needs its own close.
  if (device_ledger.add_reference_or_commit(entry)) return result;
  hook.record_allocation(entry, caller);
  return result;
}

}  // namespace

// A process that opens the handle keeps the memory until it closes it, even if this process frees the memory.
HEADROOM_HOOK Result cuIpcGetMemHandle(IpcHandle* handle, Pointer pointer) {
  const auto call = HEADROOM_REAL(cuIpcGetMemHandle);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const Result result = call(handle, pointer);
  if (result == kSuccess && hook.should_track()) device_ledger.mark_exported(base_of(pointer), 1);
  return result;
}
HEADROOM_HOOK Result cuIpcOpenMemHandle_v2(Pointer* pointer, IpcHandle handle, unsigned flags) {
  return open_ipc(HEADROOM_REAL(cuIpcOpenMemHandle_v2), pointer, handle, flags, caller_of_this_function());
}
HEADROOM_HOOK Result cuIpcOpenMemHandle(Pointer* pointer, IpcHandle handle, unsigned flags) {
  return open_ipc(HEADROOM_REAL(cuIpcOpenMemHandle), pointer, handle, flags, caller_of_this_function());
}
HEADROOM_HOOK Result cuIpcCloseMemHandle(Pointer pointer) {
  const auto call = HEADROOM_REAL(cuIpcCloseMemHandle);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.should_track()) return call(pointer);
  if (!device_ledger.is_last_else_drop_reference(pointer)) {
    const Result result = call(pointer);
    if (result != kSuccess) device_ledger.add_reference(pointer);
    return result;
  }
  return release(hook, EntryType::pointer, pointer, [&] { return call(pointer); });
}

HEADROOM_HOOK Result cuImportExternalMemory(Opaque* memory, const ExternalMemoryHandle* handle) {
  const auto call = HEADROOM_REAL(cuImportExternalMemory);
  DriverHook hook;
  CurrentDevice where;
  if (call == nullptr) return kNotFound;
  if (memory == nullptr || handle == nullptr || !hook.should_track() || !hook.get_current(where))
    return call(memory, handle);
  return allocate(
      hook, entry_of(EntryType::external_memory, DeviceMemoryKind::imported, where, handle->size),
      caller_of_this_function(), [&] { return call(memory, handle); }, [&] { return number_of(*memory); });
}
HEADROOM_HOOK Result cuDestroyExternalMemory(Opaque memory) {
  const auto call = HEADROOM_REAL(cuDestroyExternalMemory);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.should_track()) return call(memory);
  return release(hook, EntryType::external_memory, number_of(memory), [&] { return call(memory); });
}

}  // namespace headroom::preload::driver
