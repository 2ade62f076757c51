// The fake driver's pools and graphs.
#include "support/fake_cuda_state.h"

using namespace fake_cuda;

Result fake_cuda_free(std::uint64_t pointer);  // fake_cuda_memory.cpp; caller holds the lock

namespace {

// The real driver crashes with the handle of a destroyed pool.
Pool& known_pool(Opaque pool) {
  const auto found = pools.find(pool);
  if (found == pools.end() || found->second.is_destroyed) {
    std::fprintf(stderr, "fake CUDA driver: unknown or destroyed pool\n");
    std::abort();
  }
  return found->second;
}

void trim(Pool& pool, std::uint64_t keep) {
  const std::uint64_t wanted = pool.used > keep ? pool.used : keep;
  const std::uint64_t left = (wanted + kPoolStep - 1) / kPoolStep * kPoolStep;
  if (left >= pool.reserved) return;
  release_from_pool(pool, pool.reserved - left);
}

Opaque add(Opaque graph, const Opaque* dependencies, std::size_t count) {
  const Opaque node = handle();
  nodes[node] = {{dependencies, dependencies + count}, graph};
  return node;
}

std::uint64_t add_allocation(Opaque graph, Opaque node, unsigned device, std::uint64_t bytes) {
  const std::uint64_t pointer = number(bytes);
  Graph& of = graphs[graph];
  of.allocations[pointer] = {device, bytes, node, nullptr, of.allocations.size()};
  blocks[pointer] = {device, bytes, nullptr, graph, nullptr, false};
  return pointer;
}

void add_free(Opaque graph, Opaque node, Pointer pointer) {
  const auto block = blocks.find(pointer);
  if (block == blocks.end() || block->second.graph != graph) {
    graphs[graph].frees.push_back(pointer);
    return;
  }
  graphs[graph].allocations[pointer].freed_by = node;
  blocks.erase(block);
}

// Adds the next node of the captured stream.
Opaque capture() {
  const std::size_t count = last_captured_node != nullptr ? 1 : 0;
  return last_captured_node = add(captured_graph, &last_captured_node, count);
}

Result allocate_from_pool(std::uint64_t* pointer, std::uint64_t bytes, Opaque pool_handle, Opaque stream) {
  const Call call;
  // As in the real driver: with a stream of any context, no context need be current.
  const auto of_stream = streams.find(stream);
  const Opaque context = of_stream != streams.end() ? of_stream->second : current;
  if (context == nullptr) return kInvalidContext;
  const unsigned device = static_cast<Context*>(context)->device;
  if (stream != nullptr && stream == captured_stream) {
    if (capture_is_invalid) return kCaptureInvalidated;
    *pointer = add_allocation(captured_graph, capture(), device, bytes);
    return kSuccess;
  }
  if (pool_handle == nullptr) pool_handle = default_pools[device];
  if (pool_handle == nullptr) {
    pool_handle = default_pools[device] = handle();
    pools[pool_handle].device = device;
  }
  Pool& pool = known_pool(pool_handle);
  const std::uint64_t missing = pool.used + bytes > pool.reserved ? pool.used + bytes - pool.reserved : 0;
  const std::uint64_t growth = (missing + kPoolStep - 1) / kPoolStep * kPoolStep;
  if (!grow(pool.device, growth)) return kOutOfMemory;
  pool.reserved += growth;
  pool.used += bytes;
  *pointer = number(bytes);
  blocks[*pointer] = {pool.device, bytes, pool_handle, nullptr, context, true};
  return kSuccess;
}

Opaque make_graph() {
  Opaque graph = nullptr;
  if (free_graphs.empty()) {
    graph = handle();
  } else {
    graph = free_graphs.back();
    free_graphs.pop_back();
  }
  graphs[graph];
  return graph;
}

// Frees the handle for reuse. Users of the graph's memory refer to it by another name from then on.
void release_graph_handle(Opaque graph) {
  const Opaque name = handle();
  auto entry = graphs.extract(graph);
  if (!entry.empty()) {
    entry.key() = name;
    graphs.insert(std::move(entry));
  }
  for (auto& [node, one] : nodes)
    if (one.graph == graph) one.graph = name;
  for (auto& [pointer, block] : blocks)
    if (block.graph == graph) block.graph = name;
  for (auto& [exec, of] : execs)
    if (of.graph == graph) of.graph = name;
  free_graphs.push_back(graph);
}

void drop_graph(Opaque graph) {
  const auto found = graphs.find(graph);
  if (found == graphs.end() || --found->second.users > 0) return;
  for (auto it = blocks.begin(); it != blocks.end();) {
    if (it->second.graph == graph && !it->second.is_live) {
      it = blocks.erase(it);
      continue;
    }
    ++it;
  }
  for (unsigned device = 0; found->second.has_run && device < kMaxDevices; ++device)
    kept_for_graphs[device] += found->second.running * found->second.need[device];
  // Live orphans are not unused memory.
  for (unsigned device = 0; found->second.has_run && device < kMaxDevices; ++device)
    kept_for_graphs[device] -= orphan_bytes(graph, device);
  for (auto it = nodes.begin(); it != nodes.end();)
    it = it->second.graph == graph ? nodes.erase(it) : std::next(it);
  graphs.erase(found);
}

// Destroys the exec. Its memory becomes unused, except for live allocations.
void drop_exec(Opaque exec) {
  const GraphExec gone = execs[exec];
  execs.erase(exec);
  const auto found = graphs.find(gone.graph);
  bool has_live = false;
  for (const auto& [pointer, block] : blocks)
    has_live = has_live || (block.graph == gone.graph && block.is_live);
  if (found != graphs.end() && gone.has_run && (found->second.running > 1 || !has_live)) {
    --found->second.running;
    for (unsigned device = 0; device < kMaxDevices; ++device)
      kept_for_graphs[device] += found->second.need[device];
  }
  drop_graph(gone.graph);
}

}  // namespace

EXPORTED Result cuMemAllocAsync(Pointer* pointer, std::size_t bytes, Opaque stream) {
  return allocate_from_pool(pointer, bytes, nullptr, stream);
}
EXPORTED Result cuMemAllocAsync_ptsz(Pointer* pointer, std::size_t bytes, Opaque stream) {
  return allocate_from_pool(pointer, bytes, nullptr, stream);
}
EXPORTED Result cuMemAllocFromPoolAsync(Pointer* pointer, std::size_t bytes, Opaque pool, Opaque stream) {
  return allocate_from_pool(pointer, bytes, pool, stream);
}
EXPORTED Result cuMemFreeAsync(Pointer pointer, Opaque stream) {
  const Preemption preemption;
  if (stream == nullptr || stream != captured_stream) {
    const std::lock_guard lock(mutex);
    if (!is_busy) return fake_cuda_free(pointer);
    run_in_stream(stream, [pointer] { fake_cuda_free(pointer); });
    return kSuccess;
  }
  const std::lock_guard lock(mutex);
  add_free(captured_graph, capture(), pointer);
  return kSuccess;
}
EXPORTED Result cuMemFreeAsync_ptsz(Pointer pointer, Opaque stream) {
  return cuMemFreeAsync(pointer, stream);
}
EXPORTED Result cuMemPoolCreate(Opaque* pool, const PoolProperties* properties) {
  const Call call;
  *pool = handle();
  // Only managed memory has no device; it is on the device that uses it first.
  const bool is_of_device = properties->location.type == kLocationDevice;
  if (!is_of_device && properties->type != kManagedMemory) return kInvalidValue;
  pools[*pool].device = is_of_device ? static_cast<unsigned>(properties->location.id) : current_device();
  return kSuccess;
}
EXPORTED Result cuMemPoolTrimTo(Opaque pool, std::size_t keep) {
  const Call call;
  trim(known_pool(pool), keep);
  return kSuccess;
}
EXPORTED Result cuMemPoolDestroy(Opaque pool) {
  const Preemption preemption;
  // Under one lock: a wait by another thread in between would free memory to a pool that is then erased.
  const std::lock_guard lock(mutex);
  Pool& gone = known_pool(pool);
  trim(gone, 0);
  if (gone.used == 0)
    pools.erase(pool);
  else
    gone.is_destroyed = true;
  return kSuccess;
}
EXPORTED Result cuMemPoolExportPointer(void*, Pointer pointer) {
  const Call call;
  const auto found = blocks.find(pointer);
  if (found == blocks.end() || found->second.pool == nullptr) return kInvalidValue;
  found->second.is_shared = true;
  return kSuccess;
}
EXPORTED Result cuMemPoolGetAttribute(Opaque pool, int attribute, void* value) {
  const Call call;
  if (attribute != kPoolReservedCurrent) return kInvalidValue;
  *static_cast<std::uint64_t*>(value) = known_pool(pool).reserved;
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
                                          const Opaque** dependencies, std::size_t* count) {
  const std::lock_guard lock(mutex);
  const bool is_captured = stream != nullptr && stream == captured_stream;
  *status = !is_captured ? kCaptureNone : capture_is_invalid ? kCaptureActive + 1 : kCaptureActive;
  if (*status != kCaptureActive) return kSuccess;  // and returns no further information
  *id = 1;
  *graph = captured_graph;
  if (dependencies != nullptr) *dependencies = &last_captured_node;
  if (count != nullptr) *count = last_captured_node != nullptr ? 1 : 0;
  return kSuccess;
}
EXPORTED Result cuStreamGetCaptureInfo_v2_ptsz(Opaque stream, int* status, std::uint64_t* id, Opaque* graph,
                                               const Opaque** dependencies, std::size_t* count) {
  return cuStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count);
}

EXPORTED Result cuGraphCreate(Opaque* graph, unsigned) {
  const std::lock_guard lock(mutex);
  *graph = make_graph();
  return kSuccess;
}
EXPORTED Result cuGraphAddMemAllocNode(Opaque* node, Opaque graph, const Opaque* dependencies,
                                       std::size_t count, AllocationNode* parameters) {
  const Call call;
  *node = add(graph, dependencies, count);
  parameters->address =
      add_allocation(graph, *node, static_cast<unsigned>(parameters->pool.location.id), parameters->bytes);
  return kSuccess;
}
EXPORTED Result cuGraphAddMemFreeNode(Opaque* node, Opaque graph, const Opaque* dependencies,
                                      std::size_t count, Pointer pointer) {
  const Call call;
  *node = add(graph, dependencies, count);
  add_free(graph, *node, pointer);
  return kSuccess;
}
EXPORTED Result cuGraphAddEmptyNode(Opaque* node, Opaque graph, const Opaque* dependencies,
                                    std::size_t count) {
  const std::lock_guard lock(mutex);
  *node = add(graph, dependencies, count);
  return kSuccess;
}
EXPORTED Result cuGraphNodeGetDependencies(Opaque node, Opaque* dependencies, std::size_t* count) {
  const std::lock_guard lock(mutex);
  const auto found = nodes.find(node);
  if (found == nodes.end()) return kInvalidValue;
  const std::vector<Opaque>& all = found->second.dependencies;
  for (std::size_t i = 0; dependencies != nullptr && i < *count && i < all.size(); ++i)
    dependencies[i] = all[i];
  if (dependencies == nullptr || *count > all.size()) *count = all.size();
  return kSuccess;
}
EXPORTED Result cuGraphInstantiateWithFlags(Opaque* exec, Opaque graph, unsigned long long) {
  const Call call;
  *exec = handle();
  ++graphs[graph].users;
  execs[*exec] = {graph};
  return kSuccess;
}
// Only allocations and frees of a captured stream become nodes. One stream is captured at a time.
EXPORTED Result cuStreamBeginCapture_v2(Opaque stream, int) {
  const std::lock_guard lock(mutex);
  if (stream == nullptr || captured_stream != nullptr) return kInvalidValue;
  captured_stream = stream;
  captured_graph = make_graph();
  last_captured_node = nullptr;
  capture_is_invalid = false;
  return kSuccess;
}
void fake_cuda_abandon_capture() {
  captured_stream = nullptr;
  drop_graph(captured_graph);
  release_graph_handle(captured_graph);
}
EXPORTED Result cuStreamEndCapture(Opaque stream, Opaque* graph) {
  const std::lock_guard lock(mutex);
  if (stream == nullptr || stream != captured_stream) return kInvalidValue;
  captured_stream = nullptr;
  *graph = capture_is_invalid ? nullptr : captured_graph;
  if (capture_is_invalid) {
    drop_graph(captured_graph);
    release_graph_handle(captured_graph);
  }
  return capture_is_invalid ? kCaptureInvalidated : kSuccess;
}
EXPORTED Result cuStreamBeginCapture_v2_ptsz(Opaque stream, int mode) {
  return cuStreamBeginCapture_v2(stream, mode);
}
EXPORTED Result cuStreamEndCapture_ptsz(Opaque stream, Opaque* graph) {
  return cuStreamEndCapture(stream, graph);
}
EXPORTED Result cuGraphLaunch(Opaque exec, Opaque) {
  const Call call;
  const auto entry = execs.find(exec);
  if (entry == execs.end()) return kInvalidValue;
  const Opaque graph = entry->second.graph;
  Graph& of = graphs[graph];
  for (const auto& [pointer, block] : blocks)
    if (block.graph == graph && block.is_live) return kInvalidValue;  // must be freed before the next launch
  for (unsigned device = 0; !entry->second.has_run && device < kMaxDevices; ++device) {
    of.need[device] = need_of(of, device);
    if (!grow(device, of.need[device])) return kOutOfMemory;
  }
  of.running += entry->second.has_run ? 0 : 1;
  entry->second.has_run = of.has_run = true;
  for (auto& [pointer, block] : blocks)
    if (block.graph == graph) block.is_live = true;
  for (const std::uint64_t pointer : of.frees) {
    const auto block = blocks.find(pointer);
    if (block == blocks.end() || !block->second.is_live) return kInvalidValue;
    if (graphs.count(block->second.graph) != 0) {
      block->second.is_live = false;
      continue;
    }
    release_block(block->second);
    blocks.erase(block);
  }
  return kSuccess;
}
// The exec uses the other graph's memory from its next launch on.
EXPORTED Result cuGraphExecUpdate_v2(Opaque exec, Opaque graph, void*) {
  constexpr Result kUpdateFailure = 910;
  const Call call;
  const auto entry = execs.find(exec);
  if (entry == execs.end() || graphs.count(graph) == 0) return kUpdateFailure;
  if (entry->second.graph == graph) return kSuccess;  // it already has its memory
  ++graphs[graph].users;
  // Keeps the former graph under a name that stays valid: its handle may be reused before the device has
  // finished.
  const Opaque before = handle();
  execs[before] = entry->second;
  entry->second = {graph};
  const auto drop = [before] { drop_exec(before); };
  run_at_wait(drop);
  return kSuccess;
}
EXPORTED Result cuGraphExecUpdate(Opaque exec, Opaque graph, Opaque*, int*) {
  return cuGraphExecUpdate_v2(exec, graph, nullptr);
}
EXPORTED Result cuGraphExecDestroy(Opaque exec) {
  const Call call;
  const auto drop = [exec] { drop_exec(exec); };
  run_at_wait(drop);
  return kSuccess;
}
EXPORTED void fake_cuda_busy(int is_on) {
  const std::lock_guard lock(mutex);
  is_busy = is_on != 0;
  if (!is_busy) finish_pending();
}
namespace {
std::atomic<unsigned> graph_looks{0};
}
EXPORTED unsigned fake_cuda_graph_looks() { return graph_looks; }
EXPORTED Result cuDeviceGetGraphMemAttribute(Device device, int attribute, void* value) {
  ++graph_looks;
  const std::lock_guard lock(mutex);
  const auto of_device = static_cast<unsigned>(device);
  std::uint64_t reserved = kept_for_graphs[device];
  for (const auto& [handle_of, graph] : graphs) reserved += graph.running * graph.need[of_device];
  std::set<Opaque> gone;
  for (const auto& [pointer, block] : blocks)
    if (block.graph != nullptr && graphs.count(block.graph) == 0 && gone.insert(block.graph).second)
      reserved += orphan_bytes(block.graph, of_device);
  *static_cast<std::uint64_t*>(value) = attribute == kGraphReservedCurrent ? reserved : 0;
  return kSuccess;
}
EXPORTED Result cuDeviceGraphMemTrim(Device device) {
  const Call call;
  in_use[device] -= kept_for_graphs[device];
  kept_for_graphs[device] = 0;
  return kSuccess;
}
EXPORTED Result cuGraphDestroy(Opaque graph) {
  const Call call;
  drop_graph(graph);
  release_graph_handle(graph);
  return kSuccess;
}
