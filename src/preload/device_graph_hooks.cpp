// Memory nodes of CUDA graphs. The driver allocates their memory when the graph runs, and keeps it until the
// graph and all its graph execs are destroyed. So launches need not be hooked. The graph is charged for the
// blocks that its nodes need when the nodes are added.
//
// Memory that no node frees outlives the graph if the graph ran. A graph exec may be updated to another
// graph, whose nodes may need more.
#include "preload/graph_nodes.h"

namespace headroom::preload::driver {
namespace {

template <class Call>
Result add_allocation(Opaque graph, AllocationNode* node, std::span<const Opaque> dependencies,
                      const CallFrame& caller, const Call& call) {
  DriverHook hook;
  CurrentDevice where;
  if (node == nullptr || !hook.should_track()) return call();
  if (node->pool.location.type == kLocationDevice && node->pool.location.id >= 0) {
    where.device = static_cast<unsigned>(node->pool.location.id);
    hook.register_device(where.device);
  } else if (!hook.get_current(where)) {
    return call();
  }
  return allocate_node(hook, graph, where, node->bytes, dependencies, caller, call,
                       [&] { return node->address; });
}

template <class Call>
Result add_free(Opaque graph, Pointer pointer, const Opaque* node, const Call& call) {
  DriverHook hook;
  const DriverLock lock;
  const Result result = call();
  if (result == kSuccess && hook.should_track())
    device_ledger.free_node(number_of(graph), pointer, node != nullptr ? number_of(*node) : 0);
  return result;
}

// A child graph with memory nodes is moved into the parent, not copied. Its handle then belongs to the
// parent.
template <class Call>
Result add_child(Opaque graph, const ChildGraphNode& child, const Call& call) {
  DriverHook hook;
  const DriverLock lock;
  const std::uint64_t moved = number_of(child.graph);
  const bool is_moved = child.ownership == kChildGraphMoved;
  const Result result = call();
  if (result == kSuccess && is_moved && hook.should_track())
    device_ledger.move_graph(moved, number_of(graph));
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

std::span<const Opaque> as_span(const Opaque* first, std::size_t count) {
  return first != nullptr ? std::span(first, count) : std::span<const Opaque>();
}

// Charges a graph exec. If the limit refuses that, reclaims memory of destroyed or updated graph execs, once
// per device, and tries again.
bool reserve_exec(DriverHook& hook, DriverLock& lock, std::uint64_t number, Opaque graph,
                  const CallFrame& caller) {
  Entry refused;
  std::uint64_t reclaimed = 0;  // one bit per device; a graph may use several
  for (;;) {
    if (device_ledger.begin_exec(number, number_of(graph), refused)) return true;
    const std::uint64_t device = std::uint64_t{1} << refused.device % ledger::kMaxDevices;
    if ((reclaimed & device) != 0) break;
    reclaimed |= device;
    lock.unlock();
    hook.reclaim_memory(refused.device);
    lock.lock();
    hook.trim_pools(refused.device);
  }
  device_ledger.refuse(refused.device, DeviceMemoryKind::graph, refused.charged);
  hook.record_last_refusal(caller);
  return false;
}

template <class Call>
Result instantiate(Opaque* exec, Opaque graph, const CallFrame& caller, const Call& call) {
  DriverHook hook;
  if (exec == nullptr || !hook.should_track()) return call();
  DriverLock lock;
  const std::uint64_t number = number_of(&hook);  // a temporary number, until the graph exec has a handle
  if (!reserve_exec(hook, lock, number, graph, caller)) return kOutOfMemory;
  const Result result = call();
  if (result == kSuccess)
    device_ledger.finish_instantiate(number, number_of(*exec));
  else
    device_ledger.cancel_exec(number);
  return result;
}

// Called with the driver lock. The driver has destroyed the graph already, and frees its memory when that is
// not in use any more.
void finish_graph_release(DriverHook& hook, const Entry& freed, std::uint64_t time, const CallFrame& caller) {
  if (freed.extra > 0) hook.record_release(freed, time);
  hook.trim_and_update_graphs(freed.device);
  hook.reconcile_graphs(freed.device, &caller);
  hook.update_graph_charge(freed.device);
}

void drop_past_updates(DriverHook& hook, std::uint64_t exec, std::uint64_t time, const CallFrame& caller) {
  Entry freed;
  while (device_ledger.drop_past_update(exec, freed)) finish_graph_release(hook, freed, time, caller);
}

// The driver keeps memory of ended graph execs, and may allocate more for the next one instead of reusing it.
void trim_launched_graphs(DriverHook& hook) {
  for (unsigned device = 0; device < ledger::kMaxDevices; ++device)
    if (hook.may_have_launched_graphs(device)) hook.trim_and_update_graphs(device);
}

void drop_graph(DriverHook& hook, EntryType type, std::uint64_t graph, std::uint64_t time,
                const CallFrame& caller) {
  Entry freed;
  for (unsigned device = 0; device_ledger.destroy_graph(type, graph, device, freed); ++device)
    finish_graph_release(hook, freed, time, caller);
  if (type != EntryType::graph_exec) return;
  drop_past_updates(hook, graph, time, caller);
  trim_launched_graphs(hook);
}

template <class Call>
Result update(Opaque exec, Opaque graph, const CallFrame& caller, const Call& call) {
  DriverHook hook;
  if (!hook.should_track()) return call();
  DriverLock lock;
  const std::uint64_t key = number_of(exec);
  if (!reserve_exec(hook, lock, key, graph, caller)) return kOutOfMemory;
  const std::uint64_t time = hook.stamp();
  const Result result = call();
  if (result != kSuccess) {
    device_ledger.cancel_exec(key);
    return result;
  }
  drop_past_updates(hook, key, time, caller);
  device_ledger.finish_update(key);
  trim_launched_graphs(hook);
  return result;
}

Result destroy(Result (*call)(Opaque), EntryType type, Opaque graph, const CallFrame& caller) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.should_track()) return call(graph);
  const DriverLock lock;
  const std::uint64_t time = hook.stamp();
  const Result result = call(graph);
  if (result == kSuccess) drop_graph(hook, type, number_of(graph), time, caller);
  return result;
}

// Captures are identified by their stream. All per-thread default streams share one handle, so those are
// identified by their thread.
std::uint64_t capture_key(Opaque stream, DefaultStream kind) {
  constexpr std::uint64_t kPerThread = 2;  // CU_STREAM_PER_THREAD
  const bool is_per_thread =
      number_of(stream) == kPerThread || (stream == nullptr && kind == DefaultStream::per_thread);
  return is_per_thread ? number_of(&thread_local_state) | 1 : number_of(stream);
}

template <class Call>
Result begin_capture(Opaque stream, DefaultStream kind, bool creates_graph, const Call& call) {
  DriverHook hook;
  if (!hook.should_track()) return call();
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

// If a capture fails, the driver has destroyed its graph, perhaps long before this call, and does not return
// its handle any more.
Result end_capture(Result (*call)(Opaque, Opaque*), Opaque stream, Opaque* graph, DefaultStream kind,
                   const CallFrame& caller) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.should_track()) return call(stream, graph);
  const DriverLock lock;
  const std::uint64_t time = hook.stamp();
  const Result result = call(stream, graph);
  if (result != kSuccess && capture_of(kind, stream).status != kCaptureNone) return result;
  const std::uint64_t captured = device_ledger.end_capture(capture_key(stream, kind));
  if (captured != 0 && (result != kSuccess || graph == nullptr || *graph == nullptr))
    drop_graph(hook, EntryType::graph, captured, time, caller);
  return result;
}

// A stream may be destroyed in the middle of a capture. That capture never ends.
Result destroy_stream(Result (*call)(Opaque), Opaque stream) {
  DriverHook hook;
  if (call == nullptr) return kNotFound;
  if (!hook.should_track() || !device_ledger.has_captures()) return call(stream);
  const std::uint64_t key = capture_key(stream, DefaultStream::legacy);
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

void drop_captured_graph(DriverHook& hook, std::uint64_t graph) {
  if (graph == 0) return;
  const DriverLock lock;
  drop_graph(hook, EntryType::graph, graph, hook.stamp(), caller_of_this_function());
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
  return add_allocation(graph, parameters, as_span(dependencies, count), caller_of_this_function(),
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
  return add_node(node, graph, parameters, as_span(dependencies, count), caller_of_this_function(),
                  [&] { return call(node, graph, dependencies, count, parameters); });
}
HEADROOM_HOOK Result cuGraphAddNode_v2(Opaque* node, Opaque graph, const Opaque* dependencies,
                                       const void* edges, std::size_t count, NodeParameters* parameters) {
  const auto call = HEADROOM_REAL(cuGraphAddNode_v2);
  if (call == nullptr) return kNotFound;
  return add_node(node, graph, parameters, as_span(dependencies, count), caller_of_this_function(),
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

// Updates the charge at once, not at the next sample of the device.
HEADROOM_HOOK Result cuDeviceGraphMemTrim(Device device) {
  const auto call = HEADROOM_REAL(cuDeviceGraphMemTrim);
  if (call == nullptr) return kNotFound;
  DriverHook hook;
  if (!hook.should_track()) return call(device);
  const DriverLock lock;
  const Result result = call(device);
  if (result == kSuccess && device >= 0) hook.update_launched_graph_charge(static_cast<unsigned>(device));
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
// The graph existed before, and outlives the capture whatever its result.
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
// The graph's nodes exist already. They are charged a second time, until the graph is destroyed.
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

}  // namespace headroom::preload::driver
