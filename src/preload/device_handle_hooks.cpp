// Memory by handle and virtual addresses. cuMemCreate allocates physical memory, and cuMemMap maps it at
// addresses that cuMemAddressReserve reserved. Physical memory is charged to its device until no handle and
// no mapping of it is left. Reserved addresses are recorded, but not charged.
#include "preload/device_reclaim.h"
#include "preload/memory.h"

namespace headroom::preload::driver {
namespace {

// Identifies a part of an array: a mapping of a part is unmapped by the same part.
std::uint64_t number_of_part(const ArrayMapping& mapping) {
  std::uint64_t number = 14695981039346656037U;  // FNV-1a over 64-bit words
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

// One number per element of an array of mappings. Short arrays need no allocation.
class NumberArray {
 public:
  explicit NumberArray(std::size_t count) : count_(count) {
    if (count > kInline) mapped_ = reserve_array<std::uint64_t>(count);
  }
  ~NumberArray() {
    if (mapped_ != nullptr) unmap_memory(mapped_, count_ * sizeof(std::uint64_t));
  }
  NumberArray(const NumberArray&) = delete;
  NumberArray& operator=(const NumberArray&) = delete;
  bool is_allocated() const { return count_ <= kInline || mapped_ != nullptr; }
  std::uint64_t& operator[](std::size_t i) { return mapped_ != nullptr ? mapped_[i] : inline_[i]; }

 private:
  static constexpr std::size_t kInline = 32;
  std::uint64_t inline_[kInline] = {};
  std::uint64_t* mapped_ = nullptr;
  std::size_t count_;
};

void record_if_freed(DriverHook& hook, const Entry& freed, std::uint64_t time) {
  if (freed.address != 0) hook.record_release(freed, time);
}

void drop_reference(DriverHook& hook, std::uint64_t physical, std::uint64_t time) {
  Entry freed;
  device_ledger.release_physical(physical, freed);
  record_if_freed(hook, freed, time);
}

// The driver unmaps when the stream reaches this call. Under a limit, a synchronize must confirm that before
// the memory counts as free.
Result map_array(DriverHook& hook, auto call, ArrayMapping* mappings, unsigned count, Opaque stream) {
  if (mappings == nullptr) return call(mappings, count, stream);
  NumberArray physical(count);
  if (!physical.is_allocated()) return kOutOfMemory;
  for (unsigned i = 0; i < count; ++i)
    physical[i] = mappings[i].operation == kMapPart ? device_ledger.retain_physical(mappings[i].handle) : 0;
  const bool is_stream_ordered = is_gpu_memory_limited();
  const std::uint64_t context = is_stream_ordered ? context_of_stream(stream) : 0;
  const std::uint64_t time = hook.stamp();
  const Result result = call(mappings, count, stream);
  for (unsigned i = 0; i < count; ++i) {
    if (result != kSuccess) {
      drop_reference(hook, physical[i], time);
      continue;
    }
    Entry freed;
    device_ledger.map_part(number_of(mappings[i].array), number_of_part(mappings[i]), physical[i],
                           is_stream_ordered, context, freed);
    record_if_freed(hook, freed, time);
  }
  return result;
}

Result create_physical(DriverHook& hook, auto call, Handle* handle, std::size_t bytes,
                       const AllocationProperties* properties, unsigned long long flags) {
  if (handle == nullptr || properties == nullptr) return call(handle, bytes, properties, flags);
  CurrentDevice where;
  const bool is_of_device = properties->location.type == kLocationDevice && properties->location.id >= 0;
  if (is_of_device) {
    where.device = static_cast<unsigned>(properties->location.id);
    hook.register_device(where.device);
  } else {
    hook.get_current(where);
  }
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
  if (result != kSuccess) {
    device_ledger.undo_release_handle(released);
    return result;
  }
  Entry freed;
  device_ledger.finish_release_handle(released, freed);
  record_if_freed(hook, freed, time);
  return result;
}

Result retain_handle(DriverHook& hook, auto call, Handle* handle, void* address) {
  if (handle == nullptr) return call(handle, address);
  const std::uint64_t physical = device_ledger.retain_mapped_physical(number_of(address));
  const std::uint64_t time = hook.stamp();
  const Result result = call(handle, address);
  if (result != kSuccess) {
    Entry unused;
    device_ledger.release_mapped_physical(physical, unused);
    record_if_freed(hook, unused, time);
    return result;
  }
  Entry freed;
  device_ledger.retain_handle(*handle, physical, freed);
  record_if_freed(hook, freed, time);
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
  if (real.cuMemGetAllocationPropertiesFromHandle != nullptr &&
      real.cuMemGetAllocationPropertiesFromHandle(&properties, *handle) == kSuccess &&
      properties.location.type == kLocationDevice && properties.location.id >= 0) {
    where.device = static_cast<unsigned>(properties.location.id);
    hook.register_device(where.device);
  }
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
  Entry entry = entry_of(EntryType::reservation, DeviceMemoryKind::reservation, where, bytes);
  entry.address = *pointer;
  device_ledger.commit(entry);
  hook.record_allocation(entry);
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
  Entry replaced, freed;
  const Entry mapping = device_ledger.map(pointer, bytes, physical, replaced, freed);
  record_if_freed(hook, replaced, time);
  record_if_freed(hook, freed, time);
  hook.record_allocation(mapping);
  return result;
}

// The addresses stay reserved for the program, so no other thread can get them between the driver's call and
// the ledger's update.
Result unmap_physical(DriverHook& hook, auto call, Pointer pointer, std::size_t bytes) {
  const std::uint64_t time = hook.stamp();
  const std::uint64_t last = device_ledger.last_mapping();
  const Result result = call(pointer, bytes);
  if (result != kSuccess) return result;
  Entry mapping, freed;
  // The mappings are contiguous.
  for (Pointer at = pointer; at - pointer < bytes; at = mapping.address + mapping.bytes) {
    if (!device_ledger.unmap_one(at, pointer + bytes - at, last, mapping, freed)) break;
    hook.record_release(mapping, time);
    record_if_freed(hook, freed, time);
  }
  return result;
}

}  // namespace

HEADROOM_HANDLE_CALLS(HEADROOM_DEFINE_HOOK)

}  // namespace headroom::preload::driver
