// Memory nodes of graphs. The driver gets the memory when the graph runs and keeps it until the graph and
// what was instantiated from it are gone, so a launch need not be watched: the graph is charged for the
// blocks that its nodes need, when they are added. What no node frees lives on after the graph, if it ran. An
// instance may be updated to another graph, whose nodes may need more.
#include "tracer/graph_nodes.h"

namespace headroom::tracer::driver {
namespace {

template <class Call>
Result add_allocation(Opaque graph, AllocationNode* node, std::span<const Opaque> dependencies,
                      const CallFrame& caller, const Call& call) {
  DriverHook hook;
  CurrentDevice where;
  if (node == nullptr || !hook.counts()) return call();
  if (node->pool.location.type == kLocationDevice && node->pool.location.id >= 0) {
    where.device = static_cast<unsigned>(node->pool.location.id);
    hook.meet(where.device);
  } else if (!hook.get_current(where)) {
    return call();
  }
  return allocate_node(hook, graph, where, node->bytes, dependencies, caller, call,
                       [&] { return node->address; });
}

template <class Call>
Result add_free(Opaque graph, Pointer pointer, const Opaque* node, const Call& call) {
  DriverHook hook;
  const DriverOrder order;
  const Result result = call();
  if (result == kSuccess && hook.counts())
    device_ledger.free_node(number_of(graph), pointer, node != nullptr ? number_of(*node) : 0);
  return result;
}

// A child with memory nodes is not copied but moved, and its handle is the parent's.
template <class Call>
Result add_child(Opaque graph, const ChildGraphNode& child, const Call& call) {
  DriverHook hook;
  const DriverOrder order;
  const std::uint64_t moved = number_of(child.graph);
  const bool is_moved = child.ownership == kChildGraphMoved;
  const Result result = call();
  if (result == kSuccess && is_moved && hook.counts()) device_ledger.move_graph(moved, number_of(graph));
  return result;
}

template <class Call>
Result add_node(Opaque* node, Opaque graph, NodeParameters* parameters, std::span<const Opaque> dependencies,
                const CallFrame& caller, const Call& call) {
  if (parameters != nullptr && parameters->type == kAllocationNode)
    return add_allocation(graph, &parameters->of.allocate, dependencies, caller, call);
  if (parameters != nullptr && parameters->type == kFreeNode)
    return add_free(graph, parameters->of.free, node, call);
  if (parameters != nullptr && parameters->type == kChildGraphNode)
    return add_child(graph, parameters->of.child, call);
  return call();
}

std::span<const Opaque> nodes(const Opaque* first, std::size_t count) {
  return first != nullptr ? std::span(first, count) : std::span<const Opaque>();
}

// Where there is no room it is waited for what instances had that were destroyed or updated.
bool reserve_instance(DriverHook& hook, DriverOrder& order, std::uint64_t number, Opaque graph,
                      const CallFrame& caller) {
  Entry refused;
  std::uint64_t settled = 0;  // devices, a bit each: a graph may be of several
  for (;;) {
    if (device_ledger.begin_exec(number, number_of(graph), refused)) return true;
    const std::uint64_t device = std::uint64_t{1} << refused.device % ledger::kMaxDevices;
    if ((settled & device) != 0) break;
    settled |= device;
    order.give_up();
    hook.make_room(refused.device);
    order.take_again();
    hook.settle_pools(refused.device);
  }
  device_ledger.refuse(refused.device, DeviceMemoryKind::graph, refused.charged);
  hook.record_last_refusal(caller);
  return false;
}

template <class Call>
Result instantiate(Opaque* exec, Opaque graph, const CallFrame& caller, const Call& call) {
  DriverHook hook;
  if (exec == nullptr || !hook.counts()) return call();
  DriverOrder order;
  const std::uint64_t number = number_of(&hook);  // until the instance has one
  if (!reserve_instance(hook, order, number, graph, caller)) return kOutOfMemory;
  const Result result = call();
  if (result == kSuccess)
    device_ledger.finish_instantiate(number, number_of(*exec));
  else
    device_ledger.cancel_exec(number);
  return result;
}

// All with the order: the driver has destroyed it already, and frees what it had when that is not in use any
// more.
void settle_gone(DriverHook& hook, const Entry& gone, std::uint64_t time, const CallFrame& caller) {
  if (gone.extra > 0) hook.record_release(gone, time);
  hook.settle_leaving_graphs(gone.device);
  hook.settle_graphs(gone.device, &caller);
  hook.look_at_graphs(gone.device);
}

void forget_updates(DriverHook& hook, std::uint64_t exec, std::uint64_t time, const CallFrame& caller) {
  Entry freed;
  while (device_ledger.drop_past_update(exec, freed)) settle_gone(hook, freed, time, caller);
}

// What an instance had that has ended the driver keeps, and takes more for the next perhaps.
void settle_instances(DriverHook& hook) {
  for (unsigned device = 0; device < ledger::kMaxDevices; ++device)
    if (hook.may_have_launched_graphs(device)) hook.settle_leaving_graphs(device);
}

void forget(DriverHook& hook, EntryType type, std::uint64_t graph, std::uint64_t time, const CallFrame& caller) {
  Entry freed;
  for (unsigned device = 0; device_ledger.destroy_graph(type, graph, device, freed); ++device)
    settle_gone(hook, freed, time, caller);
  if (type != EntryType::graph_exec) return;
  forget_updates(hook, graph, time, caller);
  settle_instances(hook);
}

template <class Call>
Result update(Opaque exec, Opaque graph, const CallFrame& caller, const Call& call) {
  DriverHook hook;
  if (!hook.counts()) return call();
  DriverOrder order;
  const std::uint64_t key = number_of(exec);
  if (!reserve_instance(hook, order, key, graph, caller)) return kOutOfMemory;
  const std::uint64_t time = hook.stamp();
  const Result result = call();
  if (result != kSuccess) {
    device_ledger.cancel_exec(key);
    return result;
  }
  forget_updates(hook, key, time, caller);
  device_ledger.finish_update(key);
  settle_instances(hook);
  return result;
}

Result destroy(Result (*call)(Opaque), EntryType type, Opaque graph, const CallFrame& caller) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(graph);
  const DriverOrder order;
  const std::uint64_t time = hook.stamp();
  const Result result = call(graph);
  if (result == kSuccess) forget(hook, type, number_of(graph), time, caller);
  return result;
}

// What a capture is known by: its stream. Threads' own default streams share one handle, so those are known
// by their thread.
std::uint64_t key_of(Opaque stream, DefaultStream kind) {
  constexpr std::uint64_t kPerThread = 2;  // CU_STREAM_PER_THREAD
  const bool is_own =
      number_of(stream) == kPerThread || (stream == nullptr && kind == DefaultStream::per_thread);
  return is_own ? number_of(&thread_local_state) | 1 : number_of(stream);
}

template <class Call>
Result begin_capture(Opaque stream, DefaultStream kind, bool makes_graph, const Call& call) {
  DriverHook hook;
  if (!hook.counts()) return call();
  device_ledger.begin_capture_call();  // from now on nobody waits
  const Result result = call();
  if (result == kSuccess) {
    const Capture capture = capture_of(kind, stream);
    if (capture.status == kCaptureActive)
      device_ledger.begin_capture(key_of(stream, kind), makes_graph ? number_of(capture.graph) : 0,
                                  context_of_stream(stream));
  }
  device_ledger.end_capture_call();
  return result;
}

// A capture that failed has no graph: the driver destroyed the one that was begun, perhaps long before, when
// it no longer tells which one that is.
Result end_capture(Result (*call)(Opaque, Opaque*), Opaque stream, Opaque* graph, DefaultStream kind,
                   const CallFrame& caller) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts()) return call(stream, graph);
  const DriverOrder order;
  const std::uint64_t time = hook.stamp();
  const Result result = call(stream, graph);
  if (result != kSuccess && capture_of(kind, stream).status != kCaptureNone) return result;
  const std::uint64_t begun = device_ledger.end_capture(key_of(stream, kind));
  if (begun != 0 && (result != kSuccess || graph == nullptr || *graph == nullptr))
    forget(hook, EntryType::graph, begun, time, caller);
  return result;
}

// In the midst of a capture, too, which nobody ends then.
Result destroy_stream(Result (*call)(Opaque), Opaque stream) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.counts() || !device_ledger.has_captures()) return call(stream);
  const std::uint64_t key = key_of(stream, DefaultStream::legacy);
  const std::uint64_t context = context_of_stream(stream);
  bool had_capture = false;
  const std::uint64_t graph = device_ledger.end_capture(key, &had_capture);
  const Result result = call(stream);
  if (!had_capture) return result;
  if (result == kSuccess)
    forget_captured(hook, graph);
  else
    device_ledger.begin_capture(key, graph, context);
  return result;
}

}  // namespace

void forget_captured(DriverHook& hook, std::uint64_t graph) {
  if (graph == 0) return;
  const DriverOrder order;
  forget(hook, EntryType::graph, graph, hook.stamp(), caller_of_this_function());
}

HEADROOM_HOOK Result cuStreamDestroy(Opaque stream) {
  return destroy_stream(HEADROOM_REAL(cuStreamDestroy), stream);
}
HEADROOM_HOOK Result cuStreamDestroy_v2(Opaque stream) {
  return destroy_stream(HEADROOM_REAL(cuStreamDestroy_v2), stream);
}

HEADROOM_HOOK Result cuGraphAddMemAllocNode(Opaque* node, Opaque graph, const Opaque* dependencies,
                                            std::size_t count, AllocationNode* parameters) {
  const auto call = HEADROOM_REAL(cuGraphAddMemAllocNode);
  if (call == nullptr) return kNotFound;
  return add_allocation(graph, parameters, nodes(dependencies, count), caller_of_this_function(),
                        [&] { return call(node, graph, dependencies, count, parameters); });
}
HEADROOM_HOOK Result cuGraphAddMemFreeNode(Opaque* node, Opaque graph, const Opaque* dependencies,
                                           std::size_t count, Pointer pointer) {
  const auto call = HEADROOM_REAL(cuGraphAddMemFreeNode);
  if (call == nullptr) return kNotFound;
  return add_free(graph, pointer, node, [&] { return call(node, graph, dependencies, count, pointer); });
}
HEADROOM_HOOK Result cuGraphAddNode(Opaque* node, Opaque graph, const Opaque* dependencies, std::size_t count,
                                    NodeParameters* parameters) {
  const auto call = HEADROOM_REAL(cuGraphAddNode);
  if (call == nullptr) return kNotFound;
  return add_node(node, graph, parameters, nodes(dependencies, count), caller_of_this_function(),
                  [&] { return call(node, graph, dependencies, count, parameters); });
}
HEADROOM_HOOK Result cuGraphAddNode_v2(Opaque* node, Opaque graph, const Opaque* dependencies,
                                       const void* edges, std::size_t count, NodeParameters* parameters) {
  const auto call = HEADROOM_REAL(cuGraphAddNode_v2);
  if (call == nullptr) return kNotFound;
  return add_node(node, graph, parameters, nodes(dependencies, count), caller_of_this_function(),
                  [&] { return call(node, graph, dependencies, edges, count, parameters); });
}

HEADROOM_HOOK Result cuGraphInstantiate(Opaque* exec, Opaque graph, Opaque* node, char* log,
                                        std::size_t bytes) {
  const auto call = HEADROOM_REAL(cuGraphInstantiate);
  if (call == nullptr) return kNotFound;
  return instantiate(exec, graph, caller_of_this_function(),
                     [&] { return call(exec, graph, node, log, bytes); });
}
HEADROOM_HOOK Result cuGraphInstantiate_v2(Opaque* exec, Opaque graph, Opaque* node, char* log,
                                           std::size_t bytes) {
  const auto call = HEADROOM_REAL(cuGraphInstantiate_v2);
  if (call == nullptr) return kNotFound;
  return instantiate(exec, graph, caller_of_this_function(),
                     [&] { return call(exec, graph, node, log, bytes); });
}
HEADROOM_HOOK Result cuGraphInstantiateWithFlags(Opaque* exec, Opaque graph, unsigned long long flags) {
  const auto call = HEADROOM_REAL(cuGraphInstantiateWithFlags);
  if (call == nullptr) return kNotFound;
  return instantiate(exec, graph, caller_of_this_function(), [&] { return call(exec, graph, flags); });
}
HEADROOM_HOOK Result cuGraphInstantiateWithParams(Opaque* exec, Opaque graph, void* parameters) {
  const auto call = HEADROOM_REAL(cuGraphInstantiateWithParams);
  if (call == nullptr) return kNotFound;
  return instantiate(exec, graph, caller_of_this_function(), [&] { return call(exec, graph, parameters); });
}
HEADROOM_HOOK Result cuGraphInstantiateWithParams_ptsz(Opaque* exec, Opaque graph, void* parameters) {
  const auto call = HEADROOM_REAL(cuGraphInstantiateWithParams_ptsz);
  if (call == nullptr) return kNotFound;
  return instantiate(exec, graph, caller_of_this_function(), [&] { return call(exec, graph, parameters); });
}
HEADROOM_HOOK Result cuGraphExecUpdate(Opaque exec, Opaque graph, Opaque* node, int* outcome) {
  const auto call = HEADROOM_REAL(cuGraphExecUpdate);
  if (call == nullptr) return kNotFound;
  return update(exec, graph, caller_of_this_function(), [&] { return call(exec, graph, node, outcome); });
}
HEADROOM_HOOK Result cuGraphExecUpdate_v2(Opaque exec, Opaque graph, void* outcome) {
  const auto call = HEADROOM_REAL(cuGraphExecUpdate_v2);
  if (call == nullptr) return kNotFound;
  return update(exec, graph, caller_of_this_function(), [&] { return call(exec, graph, outcome); });
}
HEADROOM_HOOK Result cuGraphExecDestroy(Opaque exec) {
  return destroy(HEADROOM_REAL(cuGraphExecDestroy), EntryType::graph_exec, exec, caller_of_this_function());
}
HEADROOM_HOOK Result cuGraphDestroy(Opaque graph) {
  return destroy(HEADROOM_REAL(cuGraphDestroy), EntryType::graph, graph, caller_of_this_function());
}

// What it gives back is known at once, and not when the device is looked at next.
HEADROOM_HOOK Result cuDeviceGraphMemTrim(Device device) {
  const auto call = HEADROOM_REAL(cuDeviceGraphMemTrim);
  if (call == nullptr) return kNotFound;
  DriverHook hook;
  if (!hook.counts()) return call(device);
  const DriverOrder order;
  const Result result = call(device);
  if (result == kSuccess && device >= 0) hook.look_at_launched_graphs(static_cast<unsigned>(device));
  return result;
}

HEADROOM_HOOK Result cuStreamBeginCapture(Opaque stream) {
  const auto call = HEADROOM_REAL(cuStreamBeginCapture);
  if (call == nullptr) return kNotFound;
  return begin_capture(stream, DefaultStream::legacy, true, [&] { return call(stream); });
}
HEADROOM_HOOK Result cuStreamBeginCapture_ptsz(Opaque stream) {
  const auto call = HEADROOM_REAL(cuStreamBeginCapture_ptsz);
  if (call == nullptr) return kNotFound;
  return begin_capture(stream, DefaultStream::per_thread, true, [&] { return call(stream); });
}
HEADROOM_HOOK Result cuStreamBeginCapture_v2(Opaque stream, int mode) {
  const auto call = HEADROOM_REAL(cuStreamBeginCapture_v2);
  if (call == nullptr) return kNotFound;
  return begin_capture(stream, DefaultStream::legacy, true, [&] { return call(stream, mode); });
}
HEADROOM_HOOK Result cuStreamBeginCapture_v2_ptsz(Opaque stream, int mode) {
  const auto call = HEADROOM_REAL(cuStreamBeginCapture_v2_ptsz);
  if (call == nullptr) return kNotFound;
  return begin_capture(stream, DefaultStream::per_thread, true, [&] { return call(stream, mode); });
}
// The graph is there already, and stays whatever becomes of the capture.
HEADROOM_HOOK Result cuStreamBeginCaptureToGraph(Opaque stream, Opaque graph, const Opaque* dependencies,
                                                 const void* edges, std::size_t count, int mode) {
  const auto call = HEADROOM_REAL(cuStreamBeginCaptureToGraph);
  if (call == nullptr) return kNotFound;
  return begin_capture(stream, DefaultStream::legacy, false,
                       [&] { return call(stream, graph, dependencies, edges, count, mode); });
}
HEADROOM_HOOK Result cuStreamBeginCaptureToGraph_ptsz(Opaque stream, Opaque graph, const Opaque* dependencies,
                                                      const void* edges, std::size_t count, int mode) {
  const auto call = HEADROOM_REAL(cuStreamBeginCaptureToGraph_ptsz);
  if (call == nullptr) return kNotFound;
  return begin_capture(stream, DefaultStream::per_thread, false,
                       [&] { return call(stream, graph, dependencies, edges, count, mode); });
}
// Its nodes are there already; until the graph goes they are charged once more.
HEADROOM_HOOK Result cuStreamBeginRecaptureToGraph(Opaque stream, int mode, Opaque graph, void* callback,
                                                   void* data) {
  const auto call = HEADROOM_REAL(cuStreamBeginRecaptureToGraph);
  if (call == nullptr) return kNotFound;
  return begin_capture(stream, DefaultStream::legacy, false,
                       [&] { return call(stream, mode, graph, callback, data); });
}
HEADROOM_HOOK Result cuStreamBeginRecaptureToGraph_ptsz(Opaque stream, int mode, Opaque graph, void* callback,
                                                        void* data) {
  const auto call = HEADROOM_REAL(cuStreamBeginRecaptureToGraph_ptsz);
  if (call == nullptr) return kNotFound;
  return begin_capture(stream, DefaultStream::per_thread, false,
                       [&] { return call(stream, mode, graph, callback, data); });
}
HEADROOM_HOOK Result cuStreamEndCapture(Opaque stream, Opaque* graph) {
  return end_capture(HEADROOM_REAL(cuStreamEndCapture), stream, graph, DefaultStream::legacy,
                     caller_of_this_function());
}
HEADROOM_HOOK Result cuStreamEndCapture_ptsz(Opaque stream, Opaque* graph) {
  return end_capture(HEADROOM_REAL(cuStreamEndCapture_ptsz), stream, graph, DefaultStream::per_thread,
                     caller_of_this_function());
}

}  // namespace headroom::tracer::driver
