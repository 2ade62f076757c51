// Memory nodes of graphs. The driver gets the memory when the graph runs and keeps it until the graph and
// what was instantiated from it are gone, so a launch need not be watched: the graph is charged for the most
// that its nodes have at once, when they are added. What no node frees lives on after the graph, if it ran.
#include "tracer/device_hooks.h"

namespace headroom::tracer::driver {
namespace {

template <class Call>
Result add_allocation(Opaque graph, AllocationNode* node, const CallFrame& caller, const Call& call) {
  DriverHook hook;
  CurrentDevice where;
  if (node == nullptr || !hook.counts()) return call();
  if (node->pool.location.type == kLocationDevice && node->pool.location.id >= 0) {
    where.device = static_cast<unsigned>(node->pool.location.id);
    hook.meet(where.device);
  } else if (!hook.get_current(where)) {
    return call();
  }
  return allocate_node(hook, graph, where, node->bytes, caller, call, [&] { return node->address; });
}

template <class Call>
Result add_free(Opaque graph, Pointer pointer, const Call& call) {
  DriverHook hook;
  const Result result = call();
  if (result == kSuccess && hook.counts()) device_ledger.free_node(number_of(graph), pointer);
  return result;
}

// A child with memory nodes is not copied but moved, and its handle is the parent's.
template <class Call>
Result add_child(Opaque graph, const ChildGraphNode& child, const Call& call) {
  DriverHook hook;
  const std::uint64_t moved = number_of(child.graph);
  const bool is_moved = child.ownership == kChildGraphMoved;
  const Result result = call();
  if (result == kSuccess && is_moved && hook.counts()) device_ledger.move_graph(moved, number_of(graph));
  return result;
}

template <class Call>
Result add_node(Opaque graph, NodeParameters* node, const CallFrame& caller, const Call& call) {
  if (node != nullptr && node->type == kAllocationNode)
    return add_allocation(graph, &node->of.allocate, caller, call);
  if (node != nullptr && node->type == kFreeNode) return add_free(graph, node->of.free, call);
  if (node != nullptr && node->type == kChildGraphNode) return add_child(graph, node->of.child, call);
  return call();
}

template <class Call>
Result instantiate(Opaque* exec, Opaque graph, const Call& call) {
  DriverHook hook;
  const Result result = call();
  if (result == kSuccess && exec != nullptr && hook.counts())
    device_ledger.instantiate(number_of(graph), number_of(*exec));
  return result;
}

void forget(DriverHook& hook, Space space, std::uint64_t graph, std::uint64_t time, const CallFrame& caller) {
  Entry freed;
  if (!device_ledger.destroy_graph(space, graph, freed)) return;
  hook.trim_graphs(freed.device);
  if (freed.charged > 0) hook.record_release(freed, time);
  hook.settle_graphs(freed.device, &caller);
  hook.look_at_graphs(freed.device);
}

Result destroy(Result (*call)(Opaque), Space space, Opaque graph, const CallFrame& caller) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(graph);
  const std::uint64_t time = hook.stamp();
  const Result result = call(graph);
  if (result == kSuccess) forget(hook, space, number_of(graph), time, caller);
  return result;
}

int capture_status(CaptureInfo get_info, Opaque stream, Opaque& graph) {
  int status = kCaptureNone;
  std::uint64_t id = 0;
  if (get_info == nullptr || get_info(stream, &status, &id, &graph, nullptr, nullptr) != kSuccess)
    return kCaptureNone;
  return status;
}

template <class Call>
Result begin_capture(Opaque stream, CaptureInfo get_info, const Call& call) {
  DriverHook hook;
  const Result result = call();
  Opaque graph = nullptr;
  if (result == kSuccess && hook.counts() && capture_status(get_info, stream, graph) == kCaptureActive)
    device_ledger.begin_capture(number_of(stream), number_of(graph));
  return result;
}

// A capture that failed has no graph: the driver destroyed the one that was begun, perhaps long before, when
// it no longer tells which one that is.
Result end_capture(Result (*call)(Opaque, Opaque*), Opaque stream, Opaque* graph, CaptureInfo get_info,
                   const CallFrame& caller) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(stream, graph);
  const std::uint64_t time = hook.stamp();
  const Result result = call(stream, graph);
  Opaque still = nullptr;
  if (result != kSuccess && capture_status(get_info, stream, still) != kCaptureNone) return result;
  const std::uint64_t begun = device_ledger.end_capture(number_of(stream));
  if (begun != 0 && (result != kSuccess || graph == nullptr || *graph == nullptr))
    forget(hook, Space::graph, begun, time, caller);
  return result;
}

}  // namespace

HEADROOM_HOOK Result cuGraphAddMemAllocNode(Opaque* node, Opaque graph, const Opaque* dependencies,
                                            std::size_t count, AllocationNode* parameters) {
  const auto call = HEADROOM_REAL(cuGraphAddMemAllocNode);
  if (call == nullptr) return kNotFound;
  return add_allocation(graph, parameters, caller_of_this_function(),
                        [&] { return call(node, graph, dependencies, count, parameters); });
}
HEADROOM_HOOK Result cuGraphAddMemFreeNode(Opaque* node, Opaque graph, const Opaque* dependencies,
                                           std::size_t count, Pointer pointer) {
  const auto call = HEADROOM_REAL(cuGraphAddMemFreeNode);
  if (call == nullptr) return kNotFound;
  return add_free(graph, pointer, [&] { return call(node, graph, dependencies, count, pointer); });
}
HEADROOM_HOOK Result cuGraphAddNode(Opaque* node, Opaque graph, const Opaque* dependencies, std::size_t count,
                                    NodeParameters* parameters) {
  const auto call = HEADROOM_REAL(cuGraphAddNode);
  if (call == nullptr) return kNotFound;
  return add_node(graph, parameters, caller_of_this_function(),
                  [&] { return call(node, graph, dependencies, count, parameters); });
}
HEADROOM_HOOK Result cuGraphAddNode_v2(Opaque* node, Opaque graph, const Opaque* dependencies,
                                       const void* edges, std::size_t count, NodeParameters* parameters) {
  const auto call = HEADROOM_REAL(cuGraphAddNode_v2);
  if (call == nullptr) return kNotFound;
  return add_node(graph, parameters, caller_of_this_function(),
                  [&] { return call(node, graph, dependencies, edges, count, parameters); });
}

HEADROOM_HOOK Result cuGraphInstantiate(Opaque* exec, Opaque graph, Opaque* node, char* log,
                                        std::size_t bytes) {
  const auto call = HEADROOM_REAL(cuGraphInstantiate);
  if (call == nullptr) return kNotFound;
  return instantiate(exec, graph, [&] { return call(exec, graph, node, log, bytes); });
}
HEADROOM_HOOK Result cuGraphInstantiate_v2(Opaque* exec, Opaque graph, Opaque* node, char* log,
                                           std::size_t bytes) {
  const auto call = HEADROOM_REAL(cuGraphInstantiate_v2);
  if (call == nullptr) return kNotFound;
  return instantiate(exec, graph, [&] { return call(exec, graph, node, log, bytes); });
}
HEADROOM_HOOK Result cuGraphInstantiateWithFlags(Opaque* exec, Opaque graph, unsigned long long flags) {
  const auto call = HEADROOM_REAL(cuGraphInstantiateWithFlags);
  if (call == nullptr) return kNotFound;
  return instantiate(exec, graph, [&] { return call(exec, graph, flags); });
}
HEADROOM_HOOK Result cuGraphInstantiateWithParams(Opaque* exec, Opaque graph, void* parameters) {
  const auto call = HEADROOM_REAL(cuGraphInstantiateWithParams);
  if (call == nullptr) return kNotFound;
  return instantiate(exec, graph, [&] { return call(exec, graph, parameters); });
}
HEADROOM_HOOK Result cuGraphInstantiateWithParams_ptsz(Opaque* exec, Opaque graph, void* parameters) {
  const auto call = HEADROOM_REAL(cuGraphInstantiateWithParams_ptsz);
  if (call == nullptr) return kNotFound;
  return instantiate(exec, graph, [&] { return call(exec, graph, parameters); });
}
HEADROOM_HOOK Result cuGraphExecDestroy(Opaque exec) {
  return destroy(HEADROOM_REAL(cuGraphExecDestroy), Space::graph_exec, exec, caller_of_this_function());
}
HEADROOM_HOOK Result cuGraphDestroy(Opaque graph) {
  return destroy(HEADROOM_REAL(cuGraphDestroy), Space::graph, graph, caller_of_this_function());
}

HEADROOM_HOOK Result cuStreamBeginCapture(Opaque stream) {
  const auto call = HEADROOM_REAL(cuStreamBeginCapture);
  if (call == nullptr) return kNotFound;
  return begin_capture(stream, real.cuStreamGetCaptureInfo_v2, [&] { return call(stream); });
}
HEADROOM_HOOK Result cuStreamBeginCapture_ptsz(Opaque stream) {
  const auto call = HEADROOM_REAL(cuStreamBeginCapture_ptsz);
  if (call == nullptr) return kNotFound;
  return begin_capture(stream, real.cuStreamGetCaptureInfo_v2_ptsz, [&] { return call(stream); });
}
HEADROOM_HOOK Result cuStreamBeginCapture_v2(Opaque stream, int mode) {
  const auto call = HEADROOM_REAL(cuStreamBeginCapture_v2);
  if (call == nullptr) return kNotFound;
  return begin_capture(stream, real.cuStreamGetCaptureInfo_v2, [&] { return call(stream, mode); });
}
HEADROOM_HOOK Result cuStreamBeginCapture_v2_ptsz(Opaque stream, int mode) {
  const auto call = HEADROOM_REAL(cuStreamBeginCapture_v2_ptsz);
  if (call == nullptr) return kNotFound;
  return begin_capture(stream, real.cuStreamGetCaptureInfo_v2_ptsz, [&] { return call(stream, mode); });
}
HEADROOM_HOOK Result cuStreamEndCapture(Opaque stream, Opaque* graph) {
  return end_capture(HEADROOM_REAL(cuStreamEndCapture), stream, graph, real.cuStreamGetCaptureInfo_v2,
                     caller_of_this_function());
}
HEADROOM_HOOK Result cuStreamEndCapture_ptsz(Opaque stream, Opaque* graph) {
  return end_capture(HEADROOM_REAL(cuStreamEndCapture_ptsz), stream, graph,
                     real.cuStreamGetCaptureInfo_v2_ptsz, caller_of_this_function());
}

}  // namespace headroom::tracer::driver
