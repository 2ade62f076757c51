// Memory by handle and virtual addresses. cuMemCreate allocates physical memory, and cuMemMap maps it at
// addresses that cuMemAddressReserve reserved. Physical memory is charged to its device until no handle and
// no mapping of it is left. Reserved addresses are recorded, but not charged.

#include "preload/device_hooks.h"

namespace headroom::preload::driver {

namespace {

void record_if_freed(DriverHook& hook, const Entry& freed, std::uint64_t time) {
  if (freed.address != 0) hook.record_release(freed, time);
}

void drop_reference(DriverHook& hook, std::uint64_t physical, std::uint64_t time) {
  record_if_freed(hook, device_ledger.release_physical(physical), time);
}

// Headroom does not follow which parts of sparse arrays have memory. So memory that was mapped to one keeps a
// reference, and stays charged until the process ends.
Result map_array(DriverHook&, auto call, ArrayMapping* mappings, unsigned count, Opaque stream) {
  for (unsigned i = 0; mappings != nullptr && i < count; ++i)
    if (mappings[i].operation == kMapPart) device_ledger.retain_physical(mappings[i].handle);
  return call(mappings, count, stream);
}

Result create_physical(DriverHook& hook, auto call, Handle* handle, std::size_t bytes,
                       const AllocationProperties* properties, unsigned long long flags) {
  if (handle == nullptr || properties == nullptr) return call(handle, bytes, properties, flags);
  CurrentDevice where;
  const bool is_of_device = hook.find_device_at(properties->location, where);
  if (!is_of_device) hook.get_current(where);
  const auto kind = is_of_device ? DeviceMemoryKind::physical : DeviceMemoryKind::pinned_host;
  if (!reserve(hook, where.device, kind, bytes)) return kOutOfMemory;
  const Result result = call(handle, bytes, properties, flags);
  if (result != kSuccess) {
    device_ledger.cancel(where.device, kind, bytes);
    return result;
  }
  Entry entry = entry_of(EntryType::physical, kind, where, bytes), freed;
  entry.address = device_ledger.commit_physical(*handle, where.device, kind, bytes, freed);
  record_if_freed(hook, freed, hook.stamp());
  hook.record_allocation(entry);
  return result;
}

Result release_handle(DriverHook& hook, auto call, Handle handle) {
  const auto released = device_ledger.begin_release_handle(handle);
  const std::uint64_t time = hook.stamp();
  const Result result = call(handle);
  if (result == kSuccess) record_if_freed(hook, device_ledger.finish_release_handle(released), time);
  return result;
}

Result retain_handle(DriverHook& hook, auto call, Handle* handle, void* address) {
  if (handle == nullptr) return call(handle, address);
  const std::uint64_t physical = device_ledger.retain_mapped_physical(number_of(address));
  const std::uint64_t time = hook.stamp();
  const Result result = call(handle, address);
  record_if_freed(hook,
                  result == kSuccess ? device_ledger.retain_handle(*handle, physical)
                                     : device_ledger.release_physical(physical),
                  time);
  return result;
}

Result export_handle(DriverHook& hook, auto call, void* shared, Handle handle, int type,
                     unsigned long long flags) {
  const std::uint64_t physical = device_ledger.retain_physical(handle);
  const std::uint64_t time = hook.stamp();
  const Result result = call(shared, handle, type, flags);
  if (result == kSuccess) device_ledger.export_physical(physical);
  drop_reference(hook, physical, time);
  return result;
}

// The process that created the memory, perhaps this one, is charged until it ends. The size becomes known
// when the memory is mapped.
Result import_handle(DriverHook& hook, auto call, Handle* handle, void* shared, int type) {
  CurrentDevice where;
  const Result result = call(handle, shared, type);
  if (result != kSuccess || handle == nullptr || !hook.get_current(where)) return result;
  if (device_ledger.reuse_handle(*handle)) return result;
  AllocationProperties properties{};
  if (real.cuMemGetAllocationPropertiesFromHandle(&properties, *handle) == kSuccess)
    hook.find_device_at(properties.location, where);
  Entry entry = entry_of(EntryType::physical, DeviceMemoryKind::imported, where, 0), freed;
  entry.address = device_ledger.commit_physical(*handle, where.device, DeviceMemoryKind::imported, 0, freed);
  record_if_freed(hook, freed, hook.stamp());
  hook.record_allocation(entry);
  return result;
}

Result reserve_addresses(DriverHook& hook, auto call, Pointer* pointer, std::size_t bytes,
                         std::size_t alignment, Pointer wanted, unsigned long long flags) {
  const Result result = call(pointer, bytes, alignment, wanted, flags);
  CurrentDevice where;
  if (result != kSuccess || pointer == nullptr) return result;
  hook.get_current(where);
  where.context = 0;  // reserved addresses outlive contexts
  commit_and_record(hook, entry_of(EntryType::reservation, DeviceMemoryKind::reservation, where, bytes),
                    *pointer);
  return result;
}

Result free_addresses(DriverHook& hook, auto call, Pointer pointer, std::size_t bytes) {
  return release(hook, EntryType::reservation, pointer, [&] { return call(pointer, bytes); });
}

Result map_physical(DriverHook& hook, auto call, Pointer pointer, std::size_t bytes, std::size_t offset,
                    Handle handle, unsigned long long flags) {
  const std::uint64_t physical = device_ledger.retain_physical(handle);
  const std::uint64_t time = hook.stamp();
  const Result result = call(pointer, bytes, offset, handle, flags);
  if (result != kSuccess) {
    drop_reference(hook, physical, time);
    return result;
  }
  Entry freed;
  const Entry mapping = device_ledger.map(pointer, bytes, physical, freed);
  record_if_freed(hook, freed, time);
  hook.record_allocation(mapping);
  return result;
}

// The addresses stay reserved for the program, so no other thread can get them between the driver's call and
// the ledger's update.
Result unmap_physical(DriverHook& hook, auto call, Pointer pointer, std::size_t bytes) {
  const std::uint64_t time = hook.stamp();
  const Result result = call(pointer, bytes);
  if (result != kSuccess) return result;
  Entry mapping, freed;
  // The mappings are contiguous.
  for (Pointer at = pointer; at - pointer < bytes; at = mapping.address + mapping.bytes) {
    if (!device_ledger.unmap_one(at, pointer + bytes - at, mapping, freed)) break;
    hook.record_release(mapping, time);
    record_if_freed(hook, freed, time);
  }
  return result;
}

}  // namespace

HEADROOM_HANDLE_CALLS(HEADROOM_DEFINE_HOOK)

// Arrays and mipmapped arrays. Only the driver knows how much memory an array needs, and it answers only for
// arrays whose memory is mapped later. So the hook creates a trial array of the same shape, which takes no
// memory, asks for its requirements and destroys it.

namespace {

// Estimates the bytes from the number of elements, for drivers that do not return the requirements.
std::uint64_t estimate_bytes(const Array3dDescriptor& shape, unsigned levels) {
  const int format = shape.format;
  const std::uint64_t element = format == 0x01 || format == 0x08                     ? 1
                                : format == 0x02 || format == 0x09 || format == 0x10 ? 2
                                                                                     : 4;
  const auto at_least_one = [](std::size_t extent) { return extent > 0 ? extent : 1; };
  std::uint64_t bytes = shape.width * at_least_one(shape.height) * at_least_one(shape.depth) * element *
                        (shape.channels > 0 ? shape.channels : 1);
  std::uint64_t all = 0;
  for (unsigned level = 0; level < (levels > 0 ? levels : 1); ++level, bytes /= 4) all += bytes;
  return all;
}

// Creates a trial array by `create(trial, shape)`.
template <class Create, class Ask, class Destroy>
std::uint64_t query_trial(const Array3dDescriptor& shape, unsigned device, const Create& create,
                          const Ask& query, const Destroy& destroy) {
  Array3dDescriptor deferred = shape;
  deferred.flags |= kArrayDeferred;
  Opaque trial = nullptr;
  MemoryRequirements requirements{};
  if (!query || !destroy || create(&trial, &deferred) != kSuccess) return 0;
  const Result result = query(&requirements, trial, static_cast<Device>(device));
  destroy(trial);
  return result == kSuccess ? requirements.size : 0;
}
std::uint64_t required_for_array(const Array3dDescriptor& shape, unsigned device) {
  const std::uint64_t required = query_trial(shape, device, real.cuArray3DCreate_v2,
                                             real.cuArrayGetMemoryRequirements, real.cuArrayDestroy);
  return required != 0 ? required : estimate_bytes(shape, 1);
}
std::uint64_t required_for_mipmap(const Array3dDescriptor& shape, unsigned levels, unsigned device) {
  const auto create = [&](Opaque* trial, const Array3dDescriptor* deferred) {
    return real.cuMipmappedArrayCreate(trial, deferred, levels);
  };
  const std::uint64_t required = query_trial(
      shape, device, create, real.cuMipmappedArrayGetMemoryRequirements, real.cuMipmappedArrayDestroy);
  return required != 0 ? required : estimate_bytes(shape, levels);
}

// Arrays that are mapped later get their memory by handle (cuMemMapArrayAsync).
bool allocates_on_creation(const Array3dDescriptor& shape) {
  return (shape.flags & (kArraySparse | kArrayDeferred)) == 0;
}

Array3dDescriptor in_3d(const Array3dDescriptor& shape) { return shape; }
Array3dDescriptor in_3d(const ArrayDescriptor& shape) {
  return {shape.width, shape.height, 0, shape.format, shape.channels, 0};
}

template <class Shape>
Result create_array(DriverHook& hook, auto call, Opaque* array, const Shape* shape) {
  CurrentDevice where;
  if (shape == nullptr || array == nullptr || !allocates_on_creation(in_3d(*shape)) ||
      !hook.get_current(where))
    return call(array, shape);
  const Entry entry = entry_of(EntryType::array, DeviceMemoryKind::array, where,
                               required_for_array(in_3d(*shape), where.device));
  return allocate(
      hook, entry, [&] { return call(array, shape); }, [&] { return number_of(*array); });
}

Result create_mipmap(DriverHook& hook, auto call, Opaque* mipmap, const Array3dDescriptor* shape,
                     unsigned levels) {
  CurrentDevice where;
  if (shape == nullptr || mipmap == nullptr || !allocates_on_creation(*shape) || !hook.get_current(where))
    return call(mipmap, shape, levels);
  const Entry entry = entry_of(EntryType::mipmap, DeviceMemoryKind::array, where,
                               required_for_mipmap(*shape, levels, where.device));
  return allocate(
      hook, entry, [&] { return call(mipmap, shape, levels); }, [&] { return number_of(*mipmap); });
}

template <EntryType type>
Result destroy_array(DriverHook& hook, auto call, Opaque array) {
  return release(hook, type, number_of(array), [&] { return call(array); });
}

}  // namespace

HEADROOM_ARRAY_CALLS(HEADROOM_DEFINE_HOOK)

}  // namespace headroom::preload::driver
