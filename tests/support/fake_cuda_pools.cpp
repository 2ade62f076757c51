// The fake driver's pools and graphs.
#include "support/fake_cuda_state.h"

using namespace fake_cuda;

EXPORTED Result cuMemFree_v2(Pointer pointer);

namespace {

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
  if (pool_handle == nullptr) {
    pool_handle = default_pools[current_device()] = handle();
    pools[pool_handle].device = current_device();
  }
  Pool& pool = pools[pool_handle];
  const std::uint64_t growth = pool.used + bytes > pool.reserved ? pool.used + bytes - pool.reserved : 0;
  if (!grow(pool.device, growth)) return kOutOfMemory;
  pool.reserved += growth;
  pool.used += bytes;
  *pointer = number(bytes);
  blocks[*pointer] = {pool.device, bytes, pool_handle, nullptr, current};
  return kSuccess;
}

void drop_graph(Opaque graph) {
  const auto found = graphs.find(graph);
  if (found == graphs.end() || --found->second.users > 0) return;
  in_use[found->second.device] -= found->second.peak;
  for (auto it = blocks.begin(); it != blocks.end();)
    it = it->second.graph == graph ? blocks.erase(it) : ++it;
  graphs.erase(found);
}

}  // namespace

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
  if (stream == nullptr || stream != captured_stream) return cuMemFree_v2(pointer);
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
  if (static_cast<unsigned>(device) >= device_count()) return kInvalidValue;
  if (default_pools[device] == nullptr) default_pools[device] = handle();
  pools[default_pools[device]].device = static_cast<unsigned>(device);
  *pool = default_pools[device];
  return kSuccess;
}
EXPORTED Result cuDeviceGetDefaultMemPool(Opaque* pool, Device device) {
  return cuDeviceGetMemPool(pool, device);
}
EXPORTED Result cuStreamGetCaptureInfo_v2(Opaque stream, int* status, std::uint64_t* id, Opaque* graph,
                                          const Opaque**, std::size_t*) {
  *status = stream != nullptr && stream == captured_stream ? kCaptureActive : 0;
  *id = 1;
  *graph = captured_graph;
  return kSuccess;
}

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
// What is put into a stream is nothing, so a captured graph is an empty one.
EXPORTED Result cuStreamBeginCapture_v2(Opaque, int) { return kSuccess; }
EXPORTED Result cuStreamEndCapture(Opaque, Opaque* graph) { return cuGraphCreate(graph, 0); }
EXPORTED Result cuGraphLaunch(Opaque, Opaque) { return kSuccess; }
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
