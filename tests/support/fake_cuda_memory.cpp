// The fake driver's memory by pointer, by handle and as arrays.
#include <sys/mman.h>

#include <cstring>

#include "support/fake_cuda_state.h"

using namespace fake_cuda;

Result fake_cuda_free(std::uint64_t pointer) {
  const auto found = blocks.find(pointer);
  if (pointer == 0) return kSuccess;
  if (found == blocks.end() || !found->second.is_live) return kInvalidValue;
  if (graphs.count(found->second.graph) != 0) {
    found->second.is_live = false;  // the graph keeps it for its next launch
    return kSuccess;
  }
  release_block(found->second);
  blocks.erase(found);
  return kSuccess;
}

namespace {

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t step) { return (bytes + step - 1) / step * step; }

// Allocates multiples of 512 bytes in the first granule with enough unused bytes, even if these are
// fragmented. (With fragmented bytes a real driver uses a new granule, which no count of bytes can foresee.)
Result allocate_in_granule(std::uint64_t* pointer, std::uint64_t bytes, std::uint64_t granule) {
  const std::uint64_t needed = round_up(bytes, 512);
  auto found = granules.begin();
  while (found != granules.end() &&
         (found->second.context != current || found->second.used + needed > granule))
    ++found;
  if (found == granules.end()) {
    if (!grow(current_device(), granule)) return kOutOfMemory;
    next_number = round_up(next_number, granule);
    found = granules.emplace(number(granule), Granule{current, current_device(), 0, 0}).first;
  }
  *pointer = found->first;
  while (blocks.count(*pointer) != 0) *pointer += 512;
  found->second.used += needed;
  ++found->second.live;
  blocks[*pointer] = {current_device(), bytes, nullptr, nullptr, current, true, false, granule, found->first};
  return kSuccess;
}

Result allocate(std::uint64_t* pointer, std::uint64_t bytes, bool is_managed = false) {
  const Call call;
  if (current == nullptr) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  const std::uint64_t granule = is_managed ? 0 : setting("FAKE_CUDA_GRANULE", 0);
  if (granule != 0) {
    if (bytes <= granule / 2) return allocate_in_granule(pointer, bytes, granule);
    const std::uint64_t device_bytes = round_up(bytes, granule);
    if (!grow(current_device(), device_bytes)) return kOutOfMemory;
    next_number = round_up(next_number, granule);
    *pointer = number(device_bytes);
    blocks[*pointer] = {current_device(), bytes, nullptr, nullptr, current, true, false, device_bytes};
    return kSuccess;
  }
  if (!grow(current_device(), bytes)) return kOutOfMemory;
  *pointer = number(bytes);
  blocks[*pointer] = {current_device(), bytes, nullptr, nullptr, current, true};
  return kSuccess;
}

std::uint64_t array_bytes(const Array3dDescriptor& shape, unsigned levels) {
  // Pads rows to 512 bytes, as a driver may.
  std::uint64_t all = 0;
  std::size_t width = shape.width, height = shape.height > 0 ? shape.height : 1;
  const std::size_t depth = shape.depth > 0 ? shape.depth : 1;
  for (unsigned level = 0; level < levels; ++level) {
    all += (width * 4 * shape.channels + 511) / 512 * 512 * height * depth;
    width = width > 1 ? width / 2 : 1;
    height = height > 1 ? height / 2 : 1;
  }
  return all;
}
Result make_array(Opaque* array, const Array3dDescriptor& shape, unsigned levels) {
  const Call call;
  if (current == nullptr) return kInvalidContext;
  const bool is_deferred = (shape.flags & (kArrayDeferred | kArraySparse)) != 0;
  const std::uint64_t bytes = array_bytes(shape, levels);
  const std::uint64_t granule = setting("FAKE_CUDA_GRANULE", 0);
  const std::uint64_t device_bytes = granule != 0 && bytes > granule / 2 ? round_up(bytes, granule) : bytes;
  if (!is_deferred && !grow(current_device(), device_bytes)) return kOutOfMemory;
  *array = reuse_or_make(free_arrays);
  blocks[reinterpret_cast<std::uint64_t>(*array)] = {current_device(),
                                                     is_deferred ? 0 : bytes,
                                                     nullptr,
                                                     nullptr,
                                                     current,
                                                     true,
                                                     false,
                                                     is_deferred ? 0 : device_bytes};
  // The requirements of a deferred array can be queried.
  if (is_deferred)
    handles[reinterpret_cast<std::uint64_t>(*array)] = {current_device(), true, bytes, 0, 0, false};
  return kSuccess;
}
Result needs_of(MemoryRequirements* needs, Opaque array) {
  const std::lock_guard lock(mutex);
  const auto found = handles.find(reinterpret_cast<std::uint64_t>(array));
  if (found == handles.end()) return kInvalidValue;
  needs->size = found->second.bytes;
  return kSuccess;
}

void drop_physical(Handle key) {
  const auto found = handles.find(key);
  if (found == handles.end() || found->second.handles > 0 || found->second.mappings > 0 ||
      found->second.is_shared)
    return;
  if (found->second.of_device) in_use[found->second.device] -= found->second.bytes;
  if (found->second.reuses_value) free_physical.push_back(reinterpret_cast<Opaque>(key));
  handles.erase(found);
}

}  // namespace

// The error code that all requests for memory by pointer return, as after a device fault; 0: they succeed.
namespace {
std::atomic<Result> failing{kSuccess};
}
EXPORTED void fake_cuda_fails(int code) { failing = static_cast<Result>(code); }
EXPORTED Result cuMemAlloc_v2(Pointer* pointer, std::size_t bytes) {
  return failing != kSuccess ? failing.load() : allocate(pointer, bytes);
}
// The same function under a name that no table has.
EXPORTED Result cuFakeAllocation(Pointer*, std::size_t) __attribute__((alias("cuMemAlloc_v2")));
EXPORTED Result cuMemAllocPitch_v2(Pointer* pointer, std::size_t* pitch, std::size_t width,
                                   std::size_t height, unsigned) {
  *pitch = (width + 511) / 512 * 512;
  return allocate(pointer, *pitch * height);
}
EXPORTED Result cuMemAllocManaged(Pointer* pointer, std::size_t bytes, unsigned) {
  if (const auto answer = static_cast<Result>(setting("FAKE_CUDA_MANAGED", kSuccess)); answer != kSuccess)
    return answer;
  const Result result = allocate(pointer, bytes, true);
  const std::lock_guard lock(mutex);
  if (result == kSuccess) blocks[*pointer].is_managed = true;
  return result;
}
EXPORTED Result cuMemFree_v2(Pointer pointer) {
  const Call call;
  return fake_cuda_free(pointer);
}
EXPORTED Result cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  *pointer = std::malloc(bytes);
  return *pointer != nullptr ? kSuccess : kOutOfMemory;
}
EXPORTED Result cuMemHostRegister_v2(void*, std::size_t, unsigned) { return kSuccess; }
EXPORTED Result cuMemHostUnregister(void*) { return kSuccess; }
EXPORTED Result cuMemFreeHost(void* pointer) {
  std::free(pointer);
  return kSuccess;
}
EXPORTED Result cuMemGetAddressRange_v2(Pointer* base, std::size_t* bytes, Pointer pointer) {
  const std::lock_guard lock(mutex);
  *base = pointer;
  const auto found = blocks.find(pointer);
  *bytes = found != blocks.end() ? found->second.bytes : 1 << 20;
  return kSuccess;
}

EXPORTED Result cuMemGetAllocationGranularity(std::size_t* bytes, const AllocationProperties*, int) {
  *bytes = setting("FAKE_CUDA_GRANULE", 0);
  return *bytes != 0 ? kSuccess : kNotSupported;
}

EXPORTED Result cuPointerGetAttribute(void* value, int attribute, Pointer pointer) {
  const std::lock_guard lock(mutex);
  const auto found = blocks.find(pointer);
  if (found == blocks.end()) return kInvalidValue;
  if (attribute == kPointerDevice) {
    *static_cast<int*>(value) = static_cast<int>(found->second.device);
    return kSuccess;
  }
  if (attribute != kPointerMapped) return kInvalidValue;
  const auto graph = graphs.find(found->second.graph);
  const bool is_mapped = graph != graphs.end() ? graph->second.has_run : found->second.is_live;
  *static_cast<int*>(value) = is_mapped ? 1 : 0;
  return kSuccess;
}

EXPORTED Result cuMemCreate(Handle* made, std::size_t bytes, const AllocationProperties* properties,
                            unsigned long long) {
  const Call call;
  const bool of_device = properties->location.type == kLocationDevice;
  const auto device = of_device ? static_cast<unsigned>(properties->location.id) : 0;
  if (of_device && !grow(device, bytes)) return kOutOfMemory;
  *made = reinterpret_cast<Handle>(reuse_or_make(free_physical));
  constexpr int kTilePool = 2;
  handles[*made] = {device, of_device, bytes, 1, 0, false, properties->flags[kTilePool] == 0};
  return kSuccess;
}
EXPORTED Result cuMemRelease(Handle key) {
  const Call call;
  const auto found = handles.find(key);
  if (found == handles.end() || found->second.handles == 0) return kInvalidValue;
  --found->second.handles;
  drop_physical(key);
  return kSuccess;
}
EXPORTED Result cuMemRetainAllocationHandle(Handle* key, void* address) {
  const Call call;
  const auto found = mappings.find(reinterpret_cast<std::uint64_t>(address));
  if (found == mappings.end()) return kInvalidValue;
  *key = found->second.second;
  ++handles[*key].handles;
  handles[*key].reuses_value = false;
  return kSuccess;
}
EXPORTED Result cuMemAddressReserve(Pointer* pointer, std::size_t bytes, std::size_t, Pointer,
                                    unsigned long long) {
  const std::lock_guard lock(mutex);
  *pointer = number(bytes);
  return kSuccess;
}
EXPORTED Result cuMemAddressFree(Pointer, std::size_t) { return kSuccess; }
EXPORTED Result cuMemMap(Pointer pointer, std::size_t bytes, std::size_t, Handle key, unsigned long long) {
  const Call call;
  const auto found = handles.find(key);
  if (found == handles.end() || found->second.handles == 0) return kInvalidValue;
  mappings[pointer] = {bytes, key};
  ++handles[key].mappings;
  return kSuccess;
}
EXPORTED Result cuMemUnmap(Pointer pointer, std::size_t bytes) {
  const Call call;
  for (auto it = mappings.lower_bound(pointer); it != mappings.end() && it->first < pointer + bytes;) {
    const Handle key = it->second.second;
    it = mappings.erase(it);
    --handles[key].mappings;
    drop_physical(key);
  }
  return kSuccess;
}

// A descriptor keeps the memory, and an import creates another handle of it.
EXPORTED Result cuMemExportToShareableHandle(void* shared, Handle key, int, unsigned long long) {
  const Call call;
  const auto found = handles.find(key);
  const int descriptor = found != handles.end() ? ::memfd_create("fake_cuda", 0) : -1;
  if (descriptor < 0) return kInvalidValue;
  found->second.is_shared = true;
  descriptors[descriptor] = key;
  *static_cast<int*>(shared) = descriptor;
  return kSuccess;
}
EXPORTED Result cuMemImportFromShareableHandle(Handle* key, void* shared, int) {
  const Call call;
  const auto found = descriptors.find(static_cast<int>(reinterpret_cast<std::intptr_t>(shared)));
  if (found == descriptors.end()) return kInvalidValue;
  *key = found->second;
  ++handles[*key].handles;
  return kSuccess;
}
// The tiles of an array keep their memory for good: no test unmaps one.
EXPORTED Result cuMemMapArrayAsync(ArrayMapping* list, unsigned count, Opaque) {
  const Call call;
  for (unsigned i = 0; i < count; ++i) {
    const auto found = handles.find(list[i].handle);
    if (found == handles.end() || found->second.handles == 0) return kInvalidValue;
    ++found->second.mappings;
  }
  return kSuccess;
}

EXPORTED Result cuArrayCreate_v2(Opaque* array, const ArrayDescriptor* shape) {
  return make_array(array, {shape->width, shape->height, 0, shape->format, shape->channels, 0}, 1);
}
EXPORTED Result cuArray3DCreate_v2(Opaque* array, const Array3dDescriptor* shape) {
  return make_array(array, *shape, 1);
}
EXPORTED Result cuMipmappedArrayCreate(Opaque* array, const Array3dDescriptor* shape, unsigned levels) {
  return make_array(array, *shape, levels);
}
EXPORTED Result cuArrayDestroy(Opaque array) {
  const Call call;
  const auto number = reinterpret_cast<std::uint64_t>(array);
  handles.erase(number);
  const Result result = fake_cuda_free(number);
  if (result == kSuccess) free_arrays.push_back(array);
  return result;
}
EXPORTED Result cuMipmappedArrayDestroy(Opaque array) { return cuArrayDestroy(array); }
EXPORTED Result cuArrayGetMemoryRequirements(MemoryRequirements* needs, Opaque array, Device) {
  return needs_of(needs, array);
}
EXPORTED Result cuMipmappedArrayGetMemoryRequirements(MemoryRequirements* needs, Opaque array, Device) {
  return needs_of(needs, array);
}
EXPORTED Result cuIpcGetMemHandle(IpcHandle* handle, Pointer pointer) {
  const Call call;
  const auto found = blocks.find(pointer);
  if (found == blocks.end() || found->second.pool != nullptr || found->second.is_managed)
    return kInvalidValue;
  found->second.is_shared = true;
  std::memcpy(handle->bytes, &pointer, sizeof pointer);
  return kSuccess;
}
EXPORTED Result cuMemGetHandleForAddressRange(void* handle, Pointer pointer, std::size_t, int,
                                              unsigned long long) {
  const Call call;
  const auto found = blocks.find(pointer);
  if (found == blocks.end()) return kInvalidValue;
  found->second.is_shared = true;
  *static_cast<int*>(handle) = -1;
  return kSuccess;
}
EXPORTED Result cuIpcOpenMemHandle_v2(Pointer* pointer, IpcHandle, unsigned) {
  const std::lock_guard lock(mutex);
  *pointer = number(1 << 20);
  return kSuccess;
}
EXPORTED Result cuIpcCloseMemHandle(Pointer) { return kSuccess; }
