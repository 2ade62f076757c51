#include <algorithm>

#include "preload/device_graphs.h"
#include "preload/device_hooks.h"
#include "preload/memory.h"
#include "types/lock.h"

namespace headroom::preload::driver {

namespace {

constexpr std::size_t kMostNodes = 1 << 15, kSlots = 2 * kMostNodes;  // at most half full
// How many more nodes are visited, after the first hit, for a block that fits better. Visiting all of them
// for each new node would take quadratic time in a long graph.
constexpr std::uint32_t kFurtherNodes = 256;

// The visited nodes, in the order of discovery; those from `next` on are still to be expanded.
struct Walk {
  std::uint64_t nodes[kMostNodes];
  std::uint32_t slots[kSlots];  // hash table: a node's index in `nodes` plus 1; 0: empty
};
Walk* walk = nullptr;
Lock walk_lock;

std::uint32_t& slot_of(std::uint64_t node) {
  std::size_t at = (node >> 3) * 0x9e3779b97f4a7c15U >> 48;
  while (walk->slots[at] != 0 && walk->nodes[walk->slots[at] - 1] != node) at = (at + 1) % kSlots;
  return walk->slots[at];
}
static_assert(kSlots == std::size_t{1} << 16, "the 16 highest bits of the hash are a slot");

bool visit(std::uint64_t node, std::uint32_t& count) {
  if (count == kMostNodes) return false;
  std::uint32_t& slot = slot_of(node);
  if (node == 0 || slot != 0) return true;
  walk->nodes[count++] = node;
  slot = count;
  return true;
}

std::size_t dependencies_of(std::uint64_t node, std::span<Opaque> dependencies) {
  struct EdgeData {  // CUgraphEdgeData
    unsigned char bytes[8];
  } edges[64];
  std::size_t count = std::size(edges) < dependencies.size() ? std::size(edges) : dependencies.size();
  const std::size_t capacity = count;
  const auto handle = reinterpret_cast<Opaque>(node);
  const Result result = real.cuGraphNodeGetDependencies_v2
                            ? real.cuGraphNodeGetDependencies_v2(handle, dependencies.data(), edges, &count)
                            : real.cuGraphNodeGetDependencies(handle, dependencies.data(), &count);
  if (result != kSuccess) return 0;
  return count < capacity ? count : capacity;
}

}  // namespace

void reset_walk_in_child() { walk_lock.reset(); }

std::size_t find_earlier_frees(Opaque graph, unsigned device, std::span<const Opaque> dependencies,
                               std::uint64_t wanted, std::span<std::uint64_t> found) {
  const std::uint64_t key = number_of(graph);
  if (wanted == 0 || !device_ledger.has_unused_blocks(key, device, wanted)) return 0;
  const Guard guard(thread_local_state);
  const Locked locked(walk_lock);
  if (walk == nullptr) walk = reserve_array<Walk>(1);
  if (walk == nullptr) return 0;
  std::uint32_t count = 0;
  for (Opaque const node : dependencies) visit(number_of(node), count);
  std::size_t written = 0;
  std::uint32_t end = kMostNodes;
  for (std::uint32_t next = 0; next < count && next < end && written < found.size(); ++next) {
    const std::uint64_t node = walk->nodes[next];
    if (const std::uint64_t freed = device_ledger.bytes_freed_by_node(key, device, node); freed >= wanted) {
      if (written == 0) end = next + kFurtherNodes;
      found[written++] = node;
      if (freed == wanted) break;
    }
    Opaque dependency_nodes[64];
    const std::size_t dependency_count = dependencies_of(node, dependency_nodes);
    for (std::size_t i = 0; i < dependency_count; ++i)
      if (!visit(number_of(dependency_nodes[i]), count)) break;
  }
  // Cleared in reverse order of insertion, so that each probe still finds its slot.
  for (std::uint32_t i = count; i-- > 0;) slot_of(walk->nodes[i]) = 0;
  return written;
}

// The second version fails for captures with edge data; the third supports them.
Capture capture_of(DefaultStream kind, Opaque stream) {
  Capture capture;
  std::uint64_t id = 0;
  const Opaque* nodes = nullptr;
  const void* edges = nullptr;
  std::size_t count = 0;
  const bool is_legacy = kind == DefaultStream::legacy;
  const auto& v3 = is_legacy ? real.cuStreamGetCaptureInfo_v3 : real.cuStreamGetCaptureInfo_v3_ptsz;
  const auto& v2 = is_legacy ? real.cuStreamGetCaptureInfo_v2 : real.cuStreamGetCaptureInfo_v2_ptsz;
  const Result result = v3 ? v3(stream, &capture.status, &id, &capture.graph, &nodes, &edges, &count)
                           : v2(stream, &capture.status, &id, &capture.graph, &nodes, &count);
  if (result != kSuccess) capture.status = kCaptureNone;
  if (capture.status != kCaptureActive) {
    capture.graph = nullptr;
    return capture;
  }
  if (nodes == nullptr) return capture;
  capture.count = std::min(count, Capture::kMostNodes);
  std::copy_n(nodes, capture.count, capture.nodes);
  return capture;
}

namespace {

// The driver has destroyed the graph already, and frees its memory when that is not in use any more.
void finish_graph_release(DriverHook& hook, const Entry& freed, std::uint64_t time) {
  if (freed.of.graph.block_bytes > 0) hook.record_release(freed, time);
  hook.trim_and_update_graphs(freed.device);
  hook.reconcile_graphs(freed.device, true);
  hook.update_graph_charge(freed.device);
}

}  // namespace

void drop_past_updates(DriverHook& hook, std::uint64_t exec, std::uint64_t time) {
  Entry freed;
  while (device_ledger.drop_past_update(exec, freed)) finish_graph_release(hook, freed, time);
}

void trim_launched_graphs(DriverHook& hook) {
  for (unsigned device = 0; device < ledger::kMaxDevices; ++device)
    if (hook.may_have_launched_graphs(device)) hook.trim_and_update_graphs(device);
}

void drop_graph(DriverHook& hook, EntryType type, std::uint64_t graph, std::uint64_t time) {
  Entry freed;
  for (unsigned device = 0; device_ledger.destroy_graph(type, graph, device, freed); ++device)
    finish_graph_release(hook, freed, time);
  if (type != EntryType::graph_exec) return;
  drop_past_updates(hook, graph, time);
  trim_launched_graphs(hook);
}

void drop_captured_graph(DriverHook& hook, std::uint64_t graph) {
  if (graph == 0) return;
  const DriverLock lock;
  drop_graph(hook, EntryType::graph, graph, hook.stamp());
}

// Memory nodes of CUDA graphs. The driver allocates their memory when the graph runs, and keeps it until the
// graph and all its graph execs are destroyed. So launches need not be hooked. The graph is charged for the
// blocks that its nodes need when the nodes are added.
//
// Memory that no node frees outlives the graph if the graph ran. A graph exec may be updated to another
// graph, whose nodes may need more.

namespace {

std::span<const Opaque> as_span(const Opaque* first, std::size_t count) {
  return first != nullptr ? std::span(first, count) : std::span<const Opaque>();
}

template <class Call>
Result add_allocation(DriverHook& hook, Opaque graph, AllocationNode* node,
                      std::span<const Opaque> dependencies, const Call& call) {
  CurrentDevice where;
  if (node == nullptr) return call();
  if (!hook.find_device_at(node->pool.location, where) && !hook.get_current(where)) return call();
  return allocate_node(hook, graph, where, node->bytes, dependencies, call, [&] { return node->address; });
}

template <class Call>
Result add_free(Opaque graph, Pointer pointer, const Opaque* node, const Call& call) {
  const DriverLock lock;
  const Result result = call();
  if (result == kSuccess)
    device_ledger.free_node(number_of(graph), pointer, node != nullptr ? number_of(*node) : 0);
  return result;
}

// A child graph with memory nodes is moved into the parent, not copied. Its handle then belongs to the
// parent.
template <class Call>
Result add_child(Opaque graph, const ChildGraphNode& child, const Call& call) {
  const DriverLock lock;
  const std::uint64_t moved = number_of(child.graph);
  const bool is_moved = child.ownership == kChildGraphMoved;
  const Result result = call();
  if (result == kSuccess && is_moved) device_ledger.move_graph(moved, number_of(graph));
  return result;
}

template <class Call>
Result add_any(DriverHook& hook, Opaque* node, Opaque graph, NodeParameters* parameters,
               std::span<const Opaque> dependencies, const Call& call) {
  if (parameters != nullptr && parameters->type == kAllocationNode)
    return add_allocation(hook, graph, &parameters->of.allocate, dependencies, call);
  if (parameters != nullptr && parameters->type == kFreeNode)
    return add_free(graph, parameters->of.free, node, call);
  if (parameters != nullptr && parameters->type == kChildGraphNode)
    return add_child(graph, parameters->of.child, call);
  return call();
}

Result add_allocation_node(DriverHook& hook, auto call, Opaque* node, Opaque graph,
                           const Opaque* dependencies, std::size_t count, AllocationNode* parameters) {
  return add_allocation(hook, graph, parameters, as_span(dependencies, count),
                        [&] { return call(node, graph, dependencies, count, parameters); });
}
Result add_free_node(DriverHook&, auto call, Opaque* node, Opaque graph, const Opaque* dependencies,
                     std::size_t count, Pointer pointer) {
  return add_free(graph, pointer, node, [&] { return call(node, graph, dependencies, count, pointer); });
}
Result add_node(DriverHook& hook, auto call, Opaque* node, Opaque graph, const Opaque* dependencies,
                std::size_t count, NodeParameters* parameters) {
  return add_any(hook, node, graph, parameters, as_span(dependencies, count),
                 [&] { return call(node, graph, dependencies, count, parameters); });
}
Result add_node_v2(DriverHook& hook, auto call, Opaque* node, Opaque graph, const Opaque* dependencies,
                   const void* edges, std::size_t count, NodeParameters* parameters) {
  return add_any(hook, node, graph, parameters, as_span(dependencies, count),
                 [&] { return call(node, graph, dependencies, edges, count, parameters); });
}

// Charges a graph exec. If the limit refuses that, reclaims memory of destroyed or updated graph execs, once
// per device, and tries again.
bool reserve_exec(DriverHook& hook, DriverLock& lock, std::uint64_t number, Opaque graph) {
  Entry refused;
  std::uint64_t reclaimed = 0;  // one bit per device; a graph may use several
  for (;;) {
    if (device_ledger.begin_exec(number, number_of(graph), refused)) return true;
    const std::uint64_t device = std::uint64_t{1} << refused.device % ledger::kMaxDevices;
    if ((reclaimed & device) != 0) break;
    reclaimed |= device;
    lock.unlock();
    reclaim_memory(hook, refused.device);
    lock.lock();
    hook.trim_pools(refused.device);
  }
  device_ledger.refuse(refused.device, DeviceMemoryKind::graph, refused.charged);
  hook.record_last_refusal();
  return false;
}

Result instantiate(DriverHook& hook, auto call, Opaque* exec, Opaque graph, auto... rest) {
  if (exec == nullptr) return call(exec, graph, rest...);
  DriverLock lock;
  const std::uint64_t number = number_of(&hook);  // a temporary number, until the graph exec has a handle
  if (!reserve_exec(hook, lock, number, graph)) return kOutOfMemory;
  const Result result = call(exec, graph, rest...);
  if (result == kSuccess)
    device_ledger.finish_instantiate(number, number_of(*exec));
  else
    device_ledger.cancel_exec(number);
  return result;
}

Result update_exec(DriverHook& hook, auto call, Opaque exec, Opaque graph, auto... rest) {
  DriverLock lock;
  const std::uint64_t key = number_of(exec);
  if (!reserve_exec(hook, lock, key, graph)) return kOutOfMemory;
  const std::uint64_t time = hook.stamp();
  const Result result = call(exec, graph, rest...);
  if (result != kSuccess) {
    device_ledger.cancel_exec(key);
    return result;
  }
  drop_past_updates(hook, key, time);
  device_ledger.finish_update(key);
  trim_launched_graphs(hook);
  return result;
}

template <EntryType type>
Result destroy_graph(DriverHook& hook, auto call, Opaque graph) {
  const DriverLock lock;
  const std::uint64_t time = hook.stamp();
  const Result result = call(graph);
  if (result == kSuccess) drop_graph(hook, type, number_of(graph), time);
  return result;
}

// Updates the charge at once, not at the next sample of the device.
Result trim_graph_memory(DriverHook& hook, auto call, Device device) {
  const DriverLock lock;
  const Result result = call(device);
  if (result == kSuccess && device >= 0) hook.update_launched_graph_charge(static_cast<unsigned>(device));
  return result;
}

// Captures are identified by their stream. All per-thread default streams share one handle, so those are
// identified by their thread.
std::uint64_t capture_key(Opaque stream, DefaultStream kind) {
  constexpr std::uint64_t kPerThreadHandle = 2;  // CU_STREAM_PER_THREAD
  const bool is_per_thread =
      number_of(stream) == kPerThreadHandle || (stream == nullptr && kind == DefaultStream::per_thread);
  return is_per_thread ? number_of(&thread_local_state) | 1 : number_of(stream);
}

template <class Call>
Result note_capture(Opaque stream, DefaultStream kind, bool creates_graph, const Call& call) {
  device_ledger.begin_capture_call();  // from now on no thread synchronizes
  const Result result = call();
  if (result == kSuccess) {
    const Capture capture = capture_of(kind, stream);
    if (capture.status == kCaptureActive)
      device_ledger.begin_capture(capture_key(stream, kind), creates_graph ? number_of(capture.graph) : 0,
                                  context_of_stream(stream));
  }
  device_ledger.end_capture_call();
  return result;
}

template <DefaultStream kind>
Result begin_capture(DriverHook&, auto call, Opaque stream, auto... rest) {
  return note_capture(stream, kind, true, [&] { return call(stream, rest...); });
}
// The graph existed before, and outlives the capture whatever its result. Nodes that it has already and that
// are captured again are charged a second time, until the graph is destroyed.
template <DefaultStream kind>
Result begin_capture_to_graph(DriverHook&, auto call, Opaque stream, auto... rest) {
  return note_capture(stream, kind, false, [&] { return call(stream, rest...); });
}

// If a capture fails, the driver has destroyed its graph, perhaps long before this call, and does not return
// its handle any more.
template <DefaultStream kind>
Result end_capture(DriverHook& hook, auto call, Opaque stream, Opaque* graph) {
  const DriverLock lock;
  const std::uint64_t time = hook.stamp();
  const Result result = call(stream, graph);
  if (result != kSuccess && capture_of(kind, stream).status != kCaptureNone) return result;
  const std::uint64_t captured = device_ledger.end_capture(capture_key(stream, kind));
  if (captured != 0 && (result != kSuccess || graph == nullptr || *graph == nullptr))
    drop_graph(hook, EntryType::graph, captured, time);
  return result;
}

// A stream may be destroyed in the middle of a capture. That capture never ends.
Result destroy_stream(DriverHook& hook, auto call, Opaque stream) {
  if (!device_ledger.has_captures()) return call(stream);
  const std::uint64_t key = capture_key(stream, kLegacy);
  const std::uint64_t context = context_of_stream(stream);
  bool had_capture = false;
  const std::uint64_t graph = device_ledger.end_capture(key, &had_capture);
  const Result result = call(stream);
  if (!had_capture) return result;
  if (result == kSuccess)
    drop_captured_graph(hook, graph);
  else
    device_ledger.begin_capture(key, graph, context);
  return result;
}

}  // namespace

HEADROOM_GRAPH_CALLS(HEADROOM_DEFINE_HOOK)

}  // namespace headroom::preload::driver
