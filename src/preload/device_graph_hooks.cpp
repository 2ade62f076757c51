// Memory nodes of CUDA graphs. The driver allocates their memory when the graph runs, and keeps it until the
// graph and all its graph execs are destroyed. So launches need not be hooked. The graph is charged for the
// blocks that its nodes need when the nodes are added.
//
// Memory that no node frees outlives the graph if the graph ran. A graph exec may be updated to another
// graph, whose nodes may need more.
#include "preload/device_graph_release.h"
#include "preload/graph_nodes.h"

namespace headroom::preload::driver {
namespace {

std::span<const Opaque> as_span(const Opaque* first, std::size_t count) {
  return first != nullptr ? std::span(first, count) : std::span<const Opaque>();
}

template <class Call>
Result add_allocation(DriverHook& hook, Opaque graph, AllocationNode* node,
                      std::span<const Opaque> dependencies, const Call& call) {
  CurrentDevice where;
  if (node == nullptr) return call();
  if (node->pool.location.type == kLocationDevice && node->pool.location.id >= 0) {
    where.device = static_cast<unsigned>(node->pool.location.id);
    hook.register_device(where.device);
  } else if (!hook.get_current(where)) {
    return call();
  }
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
