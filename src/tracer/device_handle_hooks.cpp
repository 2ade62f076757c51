// Memory by handle and virtual addresses: cuMemCreate makes physical memory, cuMemMap puts it at addresses
// that cuMemAddressReserve reserved. The physical memory is charged, to the device where it is made, and it
// lives as long as a handle or a mapping of it. Addresses are recorded, and never added to it.
#include "tracer/device_hooks.h"

namespace headroom::tracer::driver {
namespace {

// A number for the part of the array: what is mapped there is unmapped by the same part.
std::uint64_t number_of_part(const ArrayMapping& mapping) {
  std::uint64_t number = 14695981039346656037U;  // FNV-1a, by words
  const auto add = [&](std::uint64_t word) { number = (number ^ word) * 1099511628211U; };
  add(number_of(mapping.array));
  add(static_cast<std::uint64_t>(mapping.part_type));
  const auto& tiles = mapping.part.tiles;
  const auto& tail = mapping.part.tail;
  if (mapping.part_type == kMipTail)
    for (const std::uint64_t word :
         {std::uint64_t{tail.layer}, std::uint64_t{tail.offset}, std::uint64_t{tail.size}})
      add(word);
  else
    for (const unsigned word :
         {tiles.level, tiles.layer, tiles.x, tiles.y, tiles.z, tiles.width, tiles.height, tiles.depth})
      add(word);
  return number | 1;
}

Result map_array(Result (*call)(ArrayMapping*, unsigned, Opaque), ArrayMapping* mappings, unsigned count,
                 Opaque stream) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const Result result = call(mappings, count, stream);
  if (result != kSuccess || mappings == nullptr || !hook.counts()) return result;
  for (unsigned i = 0; i < count; ++i) {
    const ArrayMapping& one = mappings[i];
    Entry freed;
    if (device_ledger.map_part(number_of(one.array), number_of_part(one),
                               one.operation == kMapPart ? one.handle : 0, freed))
      hook.record_release(freed);
  }
  return result;
}

}  // namespace

HEADROOM_HOOK Result cuMemMapArrayAsync(ArrayMapping* mappings, unsigned count, Opaque stream) {
  return map_array(HEADROOM_REAL(cuMemMapArrayAsync), mappings, count, stream);
}
HEADROOM_HOOK Result cuMemMapArrayAsync_ptsz(ArrayMapping* mappings, unsigned count, Opaque stream) {
  return map_array(HEADROOM_REAL(cuMemMapArrayAsync_ptsz), mappings, count, stream);
}

HEADROOM_HOOK Result cuMemCreate(Handle* handle, std::size_t bytes, const AllocationProperties* properties,
                                 unsigned long long flags) {
  const auto call = HEADROOM_REAL(cuMemCreate);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (handle == nullptr || properties == nullptr || !hook.counts())
    return call(handle, bytes, properties, flags);
  CurrentDevice where;
  const bool is_of_device = properties->location.type == kLocationDevice && properties->location.id >= 0;
  if (is_of_device) {
    where.device = static_cast<unsigned>(properties->location.id);
    hook.meet(where.device);
  } else {
    hook.get_current(where);
  }
  const auto kind = is_of_device ? DeviceMemoryKind::physical : DeviceMemoryKind::pinned_host;
  if (!hook.reserve(where.device, kind, bytes, caller_of_this_function())) return kOutOfMemory;
  const Result result = call(handle, bytes, properties, flags);
  if (result != kSuccess) {
    device_ledger.cancel(where.device, kind, bytes);
    return result;
  }
  Entry entry = entry_of(Space::physical, kind, where, bytes);
  entry.address = device_ledger.commit_physical(*handle, where.device, kind, bytes);
  hook.record_allocation(entry, caller_of_this_function());
  return result;
}

HEADROOM_HOOK Result cuMemRelease(Handle handle) {
  const auto call = HEADROOM_REAL(cuMemRelease);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(handle);
  const auto release = device_ledger.begin_release_handle(handle);
  const std::uint64_t time = hook.stamp();
  const Result result = call(handle);
  if (result != kSuccess) {
    device_ledger.undo_release_handle(release);
    return result;
  }
  device_ledger.finish_release_handle(release);
  if (release.is_last) hook.record_release(release.physical, time);
  return result;
}

HEADROOM_HOOK Result cuMemRetainAllocationHandle(Handle* handle, void* address) {
  const auto call = HEADROOM_REAL(cuMemRetainAllocationHandle);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const Result result = call(handle, address);
  if (result == kSuccess && handle != nullptr && hook.counts())
    device_ledger.retain_handle(*handle, number_of(address));
  return result;
}

HEADROOM_HOOK Result cuMemExportToShareableHandle(void* shared, Handle handle, int type,
                                                  unsigned long long flags) {
  const auto call = HEADROOM_REAL(cuMemExportToShareableHandle);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const Result result = call(shared, handle, type, flags);
  if (result == kSuccess && hook.counts()) device_ledger.export_handle(handle);
  return result;
}

// The process that made it, perhaps this one, is charged until it ends. How large it is shows when it is
// mapped.
HEADROOM_HOOK Result cuMemImportFromShareableHandle(Handle* handle, void* shared, int type) {
  const auto call = HEADROOM_REAL(cuMemImportFromShareableHandle);
  DriverHook hook;
  CurrentDevice where;
  if (call == nullptr) return kNotFound;
  const Result result = call(handle, shared, type);
  if (result != kSuccess || handle == nullptr || !hook.counts() || !hook.get_current(where)) return result;
  if (device_ledger.reuse_handle(*handle)) return result;
  AllocationProperties properties{};
  if (real.cuMemGetAllocationPropertiesFromHandle != nullptr &&
      real.cuMemGetAllocationPropertiesFromHandle(&properties, *handle) == kSuccess &&
      properties.location.type == kLocationDevice && properties.location.id >= 0) {
    where.device = static_cast<unsigned>(properties.location.id);
    hook.meet(where.device);
  }
  Entry entry = entry_of(Space::physical, DeviceMemoryKind::imported, where, 0);
  entry.address = device_ledger.commit_physical(*handle, where.device, DeviceMemoryKind::imported, 0);
  hook.record_allocation(entry, caller_of_this_function());
  return result;
}

HEADROOM_HOOK Result cuMemAddressReserve(Pointer* pointer, std::size_t bytes, std::size_t alignment,
                                         Pointer wanted, unsigned long long flags) {
  const auto call = HEADROOM_REAL(cuMemAddressReserve);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const Result result = call(pointer, bytes, alignment, wanted, flags);
  CurrentDevice where;
  if (result != kSuccess || pointer == nullptr || !hook.counts()) return result;
  hook.get_current(where);
  where.context = 0;  // addresses outlive contexts
  Entry entry = entry_of(Space::reservation, DeviceMemoryKind::reservation, where, bytes);
  entry.address = *pointer;
  device_ledger.commit(entry);
  hook.record_allocation(entry, caller_of_this_function());
  return result;
}

HEADROOM_HOOK Result cuMemAddressFree(Pointer pointer, std::size_t bytes) {
  const auto call = HEADROOM_REAL(cuMemAddressFree);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(pointer, bytes);
  return release(hook, Space::reservation, pointer, [&] { return call(pointer, bytes); });
}

HEADROOM_HOOK Result cuMemMap(Pointer pointer, std::size_t bytes, std::size_t offset, Handle handle,
                              unsigned long long flags) {
  const auto call = HEADROOM_REAL(cuMemMap);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const Result result = call(pointer, bytes, offset, handle, flags);
  if (result == kSuccess && hook.counts())
    hook.record_allocation(device_ledger.map(pointer, bytes, handle), caller_of_this_function());
  return result;
}

// The addresses are the program's own until it frees them, so nobody gets them in between.
HEADROOM_HOOK Result cuMemUnmap(Pointer pointer, std::size_t bytes) {
  const auto call = HEADROOM_REAL(cuMemUnmap);
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  const bool counts = hook.counts();
  const std::uint64_t time = counts ? hook.stamp() : 0;
  const Result result = call(pointer, bytes);
  if (result != kSuccess || !counts) return result;
  Entry mapping, freed;
  // They lie end to end.
  for (Pointer at = pointer; at - pointer < bytes; at = mapping.address + mapping.bytes) {
    if (!device_ledger.unmap_one(at, pointer + bytes - at, mapping, freed)) break;
    hook.record_release(mapping, time);
    if (freed.address != 0) hook.record_release(freed, time);
  }
  return result;
}

}  // namespace headroom::tracer::driver
