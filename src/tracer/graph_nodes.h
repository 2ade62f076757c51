// Memory nodes of graphs, as calls add them and as streams that are captured do.
#pragma once

#include "tracer/device_hooks.h"
#include "tracer/graph_walk.h"

namespace headroom::tracer::driver {

// Which default stream a variant of a call means.
enum class DefaultStream { legacy, per_thread };

// The graph that a stream's work becomes, and the nodes that its next one comes behind.
struct Capture {
  static constexpr std::size_t kMostNodes = 64;  // more are no matter: then more is charged
  int status = kCaptureNone;
  Opaque graph = nullptr;  // null unless the stream is being captured
  Opaque nodes[kMostNodes] = {};
  std::size_t count = 0;
  std::span<const Opaque> behind() const { return {nodes, count}; }
};
Capture capture_of(DefaultStream kind, Opaque stream);

// The recording has the graph as one allocation that grows with the blocks that its nodes need.
template <class Call, class Address>
Result allocate_node(DriverHook& hook, Opaque graph, const CurrentDevice& where, std::uint64_t bytes,
                     std::span<const Opaque> dependencies, const CallFrame& caller, const Call& call,
                     const Address& address) {
  DriverOrder order;
  const std::uint64_t key = number_of(graph);
  constexpr std::size_t kMostFrees = 256;
  std::uint64_t frees[kMostFrees];
  const std::span<const std::uint64_t> before(frees,
                                              frees_before(graph, where.device, dependencies, bytes, frees));
  if (!device_ledger.fits_in_graph(key, where.device, bytes, before)) {
    order.give_up();
    hook.make_room(where.device);
    order.take_again();
  }
  const auto growth = device_ledger.reserve_in_graph(key, where.device, bytes, before);
  if (!growth.granted) {
    hook.record_last_refusal(caller);
    return kOutOfMemory;
  }
  const Result result = call();
  if (result != kSuccess) {
    device_ledger.cancel_in_graph(key, where.device, bytes, growth, before);
    return result;
  }
  device_ledger.commit_node(key, address(), where.device, bytes, growth.spare);
  hook.look_at_graphs(where.device);
  if (growth.after == growth.before) return result;
  Entry whole = entry_of(EntryType::graph, DeviceMemoryKind::graph, where, growth.after);
  whole.address = key;
  if (growth.before > 0) hook.record_release(whole);
  hook.record_allocation(whole, caller);
  return result;
}

}  // namespace headroom::tracer::driver
