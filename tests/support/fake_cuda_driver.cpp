// A CUDA driver without a GPU: a libcuda.so.1 with the names, versions and rules of the real one, whose
// memory is numbers from a counter. It keeps account of what it gave out, by itself: fake_cuda_peak() is the
// truth that a limit is held to.
//
// Environment: FAKE_CUDA_TOTAL (bytes of each device, 64 GiB), FAKE_CUDA_DEVICES (2), FAKE_CUDA_INTEGRATED.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tracer/driver_types.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

using namespace headroom::tracer::driver;

constexpr Result kInvalidValue = 1, kNotInitialized = 3, kInvalidContext = 201, kNotFoundHere = 500;
constexpr unsigned kMost = 8;

struct Block {
  unsigned device = 0;
  std::uint64_t bytes = 0;
  Opaque pool = nullptr;  // it is a part of
  Opaque graph = nullptr;
  Opaque context = nullptr;
};
struct Physical {
  unsigned device = 0;
  bool of_device = true;
  std::uint64_t bytes = 0;
  int handles = 1, mappings = 0;
};
struct Pool {
  unsigned device = 0;
  std::uint64_t used = 0, reserved = 0;
};
struct Graph {
  std::uint64_t live = 0, peak = 0;
  unsigned device = 0;
  int users = 1;
};
struct Context {
  unsigned device = 0;
  int users = 0;
};

std::mutex mutex;
bool is_initialized = false;
std::uint64_t next_number = 0x7f0000000000;
std::uint64_t in_use[kMost] = {}, peak[kMost] = {};
std::map<std::uint64_t, Block> blocks;
std::map<std::uint64_t, Physical> handles;
std::map<std::uint64_t, std::pair<std::uint64_t, Handle>> mappings;  // by address: bytes, handle
std::map<Opaque, Pool> pools;
std::map<Opaque, Graph> graphs;
std::map<Opaque, Opaque> instances;
Context primary[kMost];
Opaque default_pools[kMost] = {};
thread_local Opaque current = nullptr;
Opaque captured_stream = nullptr, captured_graph = nullptr;
std::uint64_t queries = 0;

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}
std::uint64_t total() { return setting("FAKE_CUDA_TOTAL", std::uint64_t{64} << 30); }
unsigned device_count() { return static_cast<unsigned>(setting("FAKE_CUDA_DEVICES", 2)); }

std::uint64_t number(std::uint64_t bytes) {
  const std::uint64_t result = next_number;
  next_number += (bytes + 511) / 512 * 512 + 512;
  return result;
}
Opaque handle() { return reinterpret_cast<Opaque>(number(8)); }

bool grow(unsigned device, std::uint64_t bytes) {
  if (bytes > total() - in_use[device]) return false;
  in_use[device] += bytes;
  if (in_use[device] > peak[device]) peak[device] = in_use[device];
  return true;
}
unsigned current_device() { return static_cast<Context*>(current)->device; }

Result give(std::uint64_t* pointer, std::uint64_t bytes) {
  const std::lock_guard lock(mutex);
  if (current == nullptr) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  if (!grow(current_device(), bytes)) return kOutOfMemory;
  *pointer = number(bytes);
  blocks[*pointer] = {current_device(), bytes, nullptr, nullptr, current};
  return kSuccess;
}

void give_back(const Block& block) {
  if (block.pool != nullptr)
    pools[block.pool].used -= block.bytes;  // the pool keeps it
  else
    in_use[block.device] -= block.bytes;
}
Result take(std::uint64_t pointer) {
  const std::lock_guard lock(mutex);
  const auto found = blocks.find(pointer);
  if (pointer == 0) return kSuccess;
  if (found == blocks.end()) return kInvalidValue;
  give_back(found->second);
  blocks.erase(found);
  return kSuccess;
}

std::uint64_t array_bytes(const Array3dDescriptor& shape, unsigned levels) {
  // Rows of whole 512 bytes, as a driver might.
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
  const std::lock_guard lock(mutex);
  if (current == nullptr) return kInvalidContext;
  const bool is_deferred = (shape.flags & (kArrayDeferred | kArraySparse)) != 0;
  const std::uint64_t bytes = array_bytes(shape, levels);
  if (!is_deferred && !grow(current_device(), bytes)) return kOutOfMemory;
  *array = handle();
  blocks[reinterpret_cast<std::uint64_t>(*array)] = {current_device(), is_deferred ? 0 : bytes, nullptr,
                                                     nullptr, current};
  // A deferred one is asked how much it would need.
  if (is_deferred) handles[reinterpret_cast<std::uint64_t>(*array)] = {current_device(), true, bytes, 0, 0};
  return kSuccess;
}
Result needs_of(MemoryRequirements* needs, Opaque array) {
  const std::lock_guard lock(mutex);
  const auto found = handles.find(reinterpret_cast<std::uint64_t>(array));
  if (found == handles.end()) return kInvalidValue;
  needs->size = found->second.bytes;
  return kSuccess;
}

Result give_from_pool(std::uint64_t* pointer, std::uint64_t bytes, Opaque pool_handle, Opaque stream) {
  const std::lock_guard lock(mutex);
  if (current == nullptr) return kInvalidContext;
  if (stream != nullptr && stream == captured_stream) {
    Graph& graph = graphs[captured_graph];
    const std::uint64_t growth = graph.live + bytes > graph.peak ? graph.live + bytes - graph.peak : 0;
    if (!grow(graph.device, growth)) return kOutOfMemory;
    graph.live += bytes;
    graph.peak += growth;
    *pointer = number(bytes);
    blocks[*pointer] = {graph.device, bytes, nullptr, captured_graph, nullptr};
    return kSuccess;
  }
  if (pool_handle == nullptr) pool_handle = default_pools[current_device()];
  if (pool_handle == nullptr) pool_handle = default_pools[current_device()] = handle();
  Pool& pool = pools[pool_handle];
  if (pool.reserved == 0) pool.device = current_device();
  const std::uint64_t growth = pool.used + bytes > pool.reserved ? pool.used + bytes - pool.reserved : 0;
  if (!grow(pool.device, growth)) return kOutOfMemory;
  pool.reserved += growth;
  pool.used += bytes;
  *pointer = number(bytes);
  blocks[*pointer] = {pool.device, bytes, pool_handle, nullptr, current};
  return kSuccess;
}

void drop_physical(Handle key) {
  const auto found = handles.find(key);
  if (found == handles.end() || found->second.handles > 0 || found->second.mappings > 0) return;
  if (found->second.of_device) in_use[found->second.device] -= found->second.bytes;
  handles.erase(found);
}
void drop_graph(Opaque graph) {
  const auto found = graphs.find(graph);
  if (found == graphs.end() || --found->second.users > 0) return;
  in_use[found->second.device] -= found->second.peak;
  for (auto it = blocks.begin(); it != blocks.end();)
    it = it->second.graph == graph ? blocks.erase(it) : ++it;
  graphs.erase(found);
}
void drop_context(Opaque context) {
  for (auto it = blocks.begin(); it != blocks.end();) {
    if (it->second.context != context) {
      ++it;
      continue;
    }
    give_back(it->second);
    it = blocks.erase(it);
  }
}

}  // namespace

// --- for tests

EXPORTED std::uint64_t fake_cuda_peak(unsigned device) { return peak[device]; }
EXPORTED std::uint64_t fake_cuda_in_use(unsigned device) { return in_use[device]; }
EXPORTED std::uint64_t fake_cuda_queries() { return queries; }
EXPORTED void fake_cuda_capture(Opaque stream, Opaque graph) {
  captured_stream = stream;
  captured_graph = graph;
}

// --- devices and contexts

EXPORTED Result cuInit(unsigned) {
  is_initialized = true;
  return kSuccess;
}
EXPORTED Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
EXPORTED Result cuDeviceGetCount(int* count) {
  *count = static_cast<int>(device_count());
  return kSuccess;
}
EXPORTED Result cuDeviceGet(Device* device, int ordinal) {
  if (!is_initialized) return kNotInitialized;
  *device = ordinal;
  return static_cast<unsigned>(ordinal) < device_count() ? kSuccess : 101;
}
EXPORTED Result cuDeviceGetName(char* name, int bytes, Device device) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "Fake GPU %d", device);
  return kSuccess;
}
EXPORTED Result cuDeviceGetUuid_v2(void* uuid, Device device) {
  std::memset(uuid, 0x10 + device, 16);
  return kSuccess;
}
EXPORTED Result cuDeviceGetAttribute(int* value, int attribute, Device) {
  *value = attribute == kAttributeIntegrated ? static_cast<int>(setting("FAKE_CUDA_INTEGRATED", 0)) : 1;
  return kSuccess;
}
EXPORTED Result cuDeviceTotalMem_v2(std::size_t* bytes, Device) {
  *bytes = total();
  return kSuccess;
}
EXPORTED Result cuMemGetInfo_v2(std::size_t* free, std::size_t* all) {
  if (current == nullptr) return kInvalidContext;
  *all = total();
  *free = total() - in_use[current_device()];
  return kSuccess;
}
EXPORTED Result cuDevicePrimaryCtxRetain(Opaque* context, Device device) {
  const std::lock_guard lock(mutex);
  if (!is_initialized) return kNotInitialized;
  primary[device].device = static_cast<unsigned>(device);
  ++primary[device].users;
  *context = &primary[device];
  return kSuccess;
}
EXPORTED Result cuDevicePrimaryCtxRelease_v2(Device device) {
  const std::lock_guard lock(mutex);
  if (--primary[device].users == 0) drop_context(&primary[device]);
  return kSuccess;
}
EXPORTED Result cuDevicePrimaryCtxReset_v2(Device device) {
  const std::lock_guard lock(mutex);
  drop_context(&primary[device]);
  return kSuccess;
}
EXPORTED Result cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* active) {
  *flags = 0;
  *active = primary[device].users > 0 ? 1 : 0;
  return kSuccess;
}
EXPORTED Result cuCtxSetCurrent(Opaque context) {
  current = context;
  return kSuccess;
}
EXPORTED Result cuCtxGetCurrent(Opaque* context) {
  *context = current;
  return kSuccess;
}
EXPORTED Result cuCtxGetDevice(Device* device) {
  if (current == nullptr) return kInvalidContext;
  *device = static_cast<Device>(current_device());
  return kSuccess;
}
EXPORTED Result cuCtxSynchronize() { return kSuccess; }
EXPORTED Result cuModuleLoadData(Opaque* module, const void*) {
  const std::lock_guard lock(mutex);
  if (current == nullptr) return kInvalidContext;
  *module = handle();
  return grow(current_device(), 3 << 20) ? kSuccess : kOutOfMemory;
}
EXPORTED Result cuModuleGetFunction(Opaque* function, Opaque module, const char*) {
  *function = module;
  return kSuccess;
}
EXPORTED Result cuLaunchKernel(Opaque, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                               Opaque, void**, void**) {
  return kSuccess;
}

// --- streams and events: everything is done at once, and takes a millisecond between two events

EXPORTED Result cuStreamCreate(Opaque* stream, unsigned) {
  const std::lock_guard lock(mutex);
  *stream = handle();
  return kSuccess;
}
EXPORTED Result cuStreamDestroy_v2(Opaque) { return kSuccess; }
EXPORTED Result cuStreamSynchronize(Opaque) { return kSuccess; }
EXPORTED Result cuEventCreate(Opaque* event, unsigned) {
  const std::lock_guard lock(mutex);
  *event = handle();
  return kSuccess;
}
EXPORTED Result cuEventDestroy_v2(Opaque) { return kSuccess; }
EXPORTED Result cuEventRecord(Opaque, Opaque) { return kSuccess; }
EXPORTED Result cuEventElapsedTime(float* milliseconds, Opaque, Opaque) {
  *milliseconds = 1;
  return kSuccess;
}
EXPORTED Result cuMemcpyHtoDAsync_v2(Pointer, const void*, std::size_t, Opaque) { return kSuccess; }
EXPORTED Result cuMemcpyDtoHAsync_v2(void*, Pointer, std::size_t, Opaque) { return kSuccess; }
EXPORTED Result cuGetErrorName(Result code, const char** name) {
  *name = code == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OTHER";
  return kSuccess;
}

// --- memory

EXPORTED Result cuMemAlloc_v2(Pointer* pointer, std::size_t bytes) { return give(pointer, bytes); }
EXPORTED Result cuMemAlloc(unsigned* pointer, unsigned bytes) {
  std::uint64_t wide = 0;
  const Result result = give(&wide, bytes);
  if (result != kSuccess) return result;
  // Of 32 bits: under a number of its own.
  const std::lock_guard lock(mutex);
  static unsigned next = 4096;
  *pointer = next += 512;
  blocks[*pointer] = blocks[wide];
  blocks.erase(wide);
  return result;
}
EXPORTED Result cuMemAllocPitch_v2(Pointer* pointer, std::size_t* pitch, std::size_t width,
                                   std::size_t height, unsigned) {
  *pitch = (width + 511) / 512 * 512;
  return give(pointer, *pitch * height);
}
EXPORTED Result cuMemAllocManaged(Pointer* pointer, std::size_t bytes, unsigned) {
  return give(pointer, bytes);
}
EXPORTED Result cuMemFree_v2(Pointer pointer) { return take(pointer); }
EXPORTED Result cuMemFree(unsigned pointer) { return take(pointer); }
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

EXPORTED Result cuMemAllocAsync(Pointer* pointer, std::size_t bytes, Opaque stream) {
  return give_from_pool(pointer, bytes, nullptr, stream);
}
EXPORTED Result cuMemAllocAsync_ptsz(Pointer* pointer, std::size_t bytes, Opaque stream) {
  return give_from_pool(pointer, bytes, nullptr, stream);
}
EXPORTED Result cuMemAllocFromPoolAsync(Pointer* pointer, std::size_t bytes, Opaque pool, Opaque stream) {
  return give_from_pool(pointer, bytes, pool, stream);
}
EXPORTED Result cuMemFreeAsync(Pointer pointer, Opaque stream) {
  if (stream == nullptr || stream != captured_stream) return take(pointer);
  const std::lock_guard lock(mutex);
  graphs[captured_graph].live -= blocks[pointer].bytes;
  blocks.erase(pointer);
  return kSuccess;
}
EXPORTED Result cuMemPoolCreate(Opaque* pool, const PoolProperties* properties) {
  const std::lock_guard lock(mutex);
  *pool = handle();
  pools[*pool].device = static_cast<unsigned>(properties->location.id);
  return kSuccess;
}
EXPORTED Result cuMemPoolTrimTo(Opaque pool, std::size_t keep) {
  const std::lock_guard lock(mutex);
  Pool& of = pools[pool];
  const std::uint64_t left = of.used > keep ? of.used : keep;
  if (left < of.reserved) {
    in_use[of.device] -= of.reserved - left;
    of.reserved = left;
  }
  return kSuccess;
}
EXPORTED Result cuMemPoolDestroy(Opaque pool) {
  cuMemPoolTrimTo(pool, 0);
  return kSuccess;
}
EXPORTED Result cuMemPoolGetAttribute(Opaque pool, int attribute, void* value) {
  const std::lock_guard lock(mutex);
  if (attribute != kPoolReservedCurrent) return kInvalidValue;
  *static_cast<std::uint64_t*>(value) = pools[pool].reserved;
  return kSuccess;
}
EXPORTED Result cuDeviceGetMemPool(Opaque* pool, Device device) {
  const std::lock_guard lock(mutex);
  if (default_pools[device] == nullptr) default_pools[device] = handle();
  pools[default_pools[device]].device = static_cast<unsigned>(device);
  *pool = default_pools[device];
  return kSuccess;
}
EXPORTED Result cuStreamGetCaptureInfo_v2(Opaque stream, int* status, std::uint64_t* id, Opaque* graph,
                                          const Opaque**, std::size_t*) {
  *status = stream != nullptr && stream == captured_stream ? kCaptureActive : 0;
  *id = 1;
  *graph = captured_graph;
  return kSuccess;
}

EXPORTED Result cuMemCreate(Handle* made, std::size_t bytes, const AllocationProperties* properties,
                            unsigned long long) {
  const std::lock_guard lock(mutex);
  const bool of_device = properties->location.type == kLocationDevice;
  const auto device = of_device ? static_cast<unsigned>(properties->location.id) : 0;
  if (of_device && !grow(device, bytes)) return kOutOfMemory;
  *made = number(8);
  handles[*made] = {device, of_device, bytes, 1, 0};
  return kSuccess;
}
EXPORTED Result cuMemRelease(Handle key) {
  const std::lock_guard lock(mutex);
  const auto found = handles.find(key);
  if (found == handles.end() || found->second.handles == 0) return kInvalidValue;
  --found->second.handles;
  drop_physical(key);
  return kSuccess;
}
EXPORTED Result cuMemRetainAllocationHandle(Handle* key, void* address) {
  const std::lock_guard lock(mutex);
  const auto found = mappings.find(reinterpret_cast<std::uint64_t>(address));
  if (found == mappings.end()) return kInvalidValue;
  *key = found->second.second;
  ++handles[*key].handles;
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
  const std::lock_guard lock(mutex);
  if (handles.count(key) == 0) return kInvalidValue;
  mappings[pointer] = {bytes, key};
  ++handles[key].mappings;
  return kSuccess;
}
EXPORTED Result cuMemUnmap(Pointer pointer, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  for (auto it = mappings.lower_bound(pointer); it != mappings.end() && it->first < pointer + bytes;) {
    const Handle key = it->second.second;
    it = mappings.erase(it);
    --handles[key].mappings;
    drop_physical(key);
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
  {
    const std::lock_guard lock(mutex);
    handles.erase(reinterpret_cast<std::uint64_t>(array));
  }
  return take(reinterpret_cast<std::uint64_t>(array));
}
EXPORTED Result cuMipmappedArrayDestroy(Opaque array) { return cuArrayDestroy(array); }
EXPORTED Result cuArrayGetMemoryRequirements(MemoryRequirements* needs, Opaque array, Device) {
  return needs_of(needs, array);
}
EXPORTED Result cuMipmappedArrayGetMemoryRequirements(MemoryRequirements* needs, Opaque array, Device) {
  return needs_of(needs, array);
}
EXPORTED Result cuIpcOpenMemHandle_v2(Pointer* pointer, IpcHandle, unsigned) {
  const std::lock_guard lock(mutex);
  *pointer = number(1 << 20);
  return kSuccess;
}
EXPORTED Result cuIpcCloseMemHandle(Pointer) { return kSuccess; }

EXPORTED Result cuGraphCreate(Opaque* graph, unsigned) {
  const std::lock_guard lock(mutex);
  *graph = handle();
  graphs[*graph].device = current_device();
  return kSuccess;
}
EXPORTED Result cuGraphAddMemAllocNode(Opaque* node, Opaque graph, const Opaque*, std::size_t,
                                       AllocationNode* parameters) {
  const std::lock_guard lock(mutex);
  Graph& of = graphs[graph];
  of.device = static_cast<unsigned>(parameters->pool.location.id);
  const std::uint64_t growth =
      of.live + parameters->bytes > of.peak ? of.live + parameters->bytes - of.peak : 0;
  if (!grow(of.device, growth)) return kOutOfMemory;
  of.live += parameters->bytes;
  of.peak += growth;
  *node = handle();
  parameters->address = number(parameters->bytes);
  blocks[parameters->address] = {of.device, parameters->bytes, nullptr, graph, nullptr};
  return kSuccess;
}
EXPORTED Result cuGraphAddMemFreeNode(Opaque* node, Opaque graph, const Opaque*, std::size_t,
                                      Pointer pointer) {
  const std::lock_guard lock(mutex);
  *node = handle();
  graphs[graph].live -= blocks[pointer].bytes;
  blocks.erase(pointer);
  return kSuccess;
}
EXPORTED Result cuGraphInstantiateWithFlags(Opaque* exec, Opaque graph, unsigned long long) {
  const std::lock_guard lock(mutex);
  *exec = handle();
  ++graphs[graph].users;
  instances[*exec] = graph;
  return kSuccess;
}
EXPORTED Result cuGraphExecDestroy(Opaque exec) {
  const std::lock_guard lock(mutex);
  drop_graph(instances[exec]);
  instances.erase(exec);
  return kSuccess;
}
EXPORTED Result cuDeviceGetGraphMemAttribute(Device device, int attribute, void* value) {
  const std::lock_guard lock(mutex);
  std::uint64_t reserved = 0;
  for (const auto& [handle_of, graph] : graphs)
    reserved += graph.device == static_cast<unsigned>(device) ? graph.peak : 0;
  *static_cast<std::uint64_t*>(value) = attribute == kGraphReservedCurrent ? reserved : 0;
  return kSuccess;
}
EXPORTED Result cuGraphDestroy(Opaque graph) {
  const std::lock_guard lock(mutex);
  drop_graph(graph);
  return kSuccess;
}

// --- finding functions: a name, the version from which on it means this function, and for which default
// stream

#define FOUND(name, since, function) \
  { name, since, 0, reinterpret_cast<void*>(&function) }
EXPORTED Result cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                                    int* status);
EXPORTED Result cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}
EXPORTED Result cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                                    int* status) {
  struct Known {
    const char* name;
    int since;
    std::uint64_t flags;
    void* function;
  };
  static const Known known[] = {
      FOUND("cuInit", 2000, cuInit),
      FOUND("cuDeviceGet", 2000, cuDeviceGet),
      FOUND("cuMemAlloc", 2000, cuMemAlloc),
      FOUND("cuMemAlloc", 3020, cuMemAlloc_v2),
      FOUND("cuMemFree", 2000, cuMemFree),
      FOUND("cuMemFree", 3020, cuMemFree_v2),
      FOUND("cuMemAllocPitch", 3020, cuMemAllocPitch_v2),
      FOUND("cuMemAllocManaged", 6000, cuMemAllocManaged),
      FOUND("cuMemHostAlloc", 2020, cuMemHostAlloc),
      FOUND("cuMemFreeHost", 2000, cuMemFreeHost),
      FOUND("cuMemGetInfo", 3020, cuMemGetInfo_v2),
      FOUND("cuDeviceTotalMem", 3020, cuDeviceTotalMem_v2),
      FOUND("cuMemAllocAsync", 11020, cuMemAllocAsync),
      {"cuMemAllocAsync", 11020, 2, reinterpret_cast<void*>(&cuMemAllocAsync_ptsz)},
      FOUND("cuMemAllocFromPoolAsync", 11020, cuMemAllocFromPoolAsync),
      FOUND("cuMemFreeAsync", 11020, cuMemFreeAsync),
      FOUND("cuMemPoolCreate", 11020, cuMemPoolCreate),
      FOUND("cuMemPoolTrimTo", 11020, cuMemPoolTrimTo),
      FOUND("cuMemPoolDestroy", 11020, cuMemPoolDestroy),
      FOUND("cuMemCreate", 10020, cuMemCreate),
      FOUND("cuMemRelease", 10020, cuMemRelease),
      FOUND("cuMemAddressReserve", 10020, cuMemAddressReserve),
      FOUND("cuMemAddressFree", 10020, cuMemAddressFree),
      FOUND("cuMemMap", 10020, cuMemMap),
      FOUND("cuMemRetainAllocationHandle", 11000, cuMemRetainAllocationHandle),
      FOUND("cuMemUnmap", 10020, cuMemUnmap),
      FOUND("cuArrayCreate", 3020, cuArrayCreate_v2),
      FOUND("cuArray3DCreate", 3020, cuArray3DCreate_v2),
      FOUND("cuArrayDestroy", 2000, cuArrayDestroy),
      FOUND("cuMipmappedArrayCreate", 5000, cuMipmappedArrayCreate),
      FOUND("cuMipmappedArrayDestroy", 5000, cuMipmappedArrayDestroy),
      FOUND("cuGraphCreate", 10000, cuGraphCreate),
      FOUND("cuGraphAddMemAllocNode", 11040, cuGraphAddMemAllocNode),
      FOUND("cuGraphAddMemFreeNode", 11040, cuGraphAddMemFreeNode),
      FOUND("cuGraphDestroy", 10000, cuGraphDestroy),
      FOUND("cuGraphInstantiateWithFlags", 11040, cuGraphInstantiateWithFlags),
      FOUND("cuGraphExecDestroy", 10000, cuGraphExecDestroy),
      FOUND("cuDevicePrimaryCtxRetain", 7000, cuDevicePrimaryCtxRetain),
      FOUND("cuDevicePrimaryCtxReset", 11000, cuDevicePrimaryCtxReset_v2),
      FOUND("cuDevicePrimaryCtxRelease", 11000, cuDevicePrimaryCtxRelease_v2),
      FOUND("cuCtxSynchronize", 2000, cuCtxSynchronize),
      FOUND("cuDeviceGetMemPool", 11020, cuDeviceGetMemPool),
      FOUND("cuCtxSetCurrent", 4000, cuCtxSetCurrent),
      FOUND("cuModuleLoadData", 2000, cuModuleLoadData),
      FOUND("cuLaunchKernel", 4000, cuLaunchKernel),
      {"cuGetProcAddress", 11030, 0, reinterpret_cast<void*>(&cuGetProcAddress)},
      FOUND("cuGetProcAddress", 12000, cuGetProcAddress_v2),
  };
  ++queries;
  *function = nullptr;
  int best = -1;
  std::uint64_t best_flags = 0;
  for (const Known& one : known) {
    if (std::strcmp(one.name, name) != 0 || one.since > version || (one.flags != 0 && one.flags != flags))
      continue;
    if (one.since < best || (one.since == best && one.flags < best_flags)) continue;
    best = one.since;
    best_flags = one.flags;
    *function = one.function;
  }
  if (status != nullptr) *status = *function != nullptr ? 0 : 1;
  return *function != nullptr ? kSuccess : kNotFoundHere;
}
