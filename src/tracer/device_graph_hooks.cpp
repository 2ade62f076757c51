// Memory nodes of graphs. The driver gets the memory when the graph runs and keeps it until the graph and
// what was instantiated from it are gone, so a launch need not be watched: the graph is charged for the most
// that its nodes have at once, when they are added.
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
Result add_free(Pointer pointer, const Call& call) {
  DriverHook hook;
  const Result result = call();
  if (result == kSuccess && hook.counts()) device_ledger.free_node(pointer);
  return result;
}

template <class Call>
Result add_node(Opaque graph, NodeParameters* node, const CallFrame& caller, const Call& call) {
  if (node != nullptr && node->type == kAllocationNode)
    return add_allocation(graph, &node->of.allocate, caller, call);
  if (node != nullptr && node->type == kFreeNode) return add_free(node->of.free, call);
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

Result destroy(Result (*call)(Opaque), Space space, Opaque graph) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(graph);
  const std::uint64_t time = hook.stamp();
  const Result result = call(graph);
  Entry freed;
  if (result != kSuccess || !device_ledger.destroy_graph(space, number_of(graph), freed)) return result;
  // What ran keeps its memory with the device until it is told to trim: no part of a limit may stay there.
  const bool is_limited = device_ledger.account().limit(freed.device) != ledger::kNoLimit;
  if (is_limited && real.cuDeviceGraphMemTrim != nullptr)
    real.cuDeviceGraphMemTrim(static_cast<Device>(freed.device));
  if (freed.charged > 0) hook.record_release(freed, time);
  hook.look_at_graphs(freed.device);
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
  return add_free(pointer, [&] { return call(node, graph, dependencies, count, pointer); });
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
  return destroy(HEADROOM_REAL(cuGraphExecDestroy), Space::graph_exec, exec);
}
HEADROOM_HOOK Result cuGraphDestroy(Opaque graph) {
  return destroy(HEADROOM_REAL(cuGraphDestroy), Space::graph, graph);
}

}  // namespace headroom::tracer::driver
