// Memory nodes of graphs, added by graph calls or by stream capture. A new node may reuse only memory that
// one of its ancestors freed, so the ancestors are searched.
#pragma once

#include <cstdint>
#include <span>

#include "preload/device_hooks.h"
#include "preload/driver_calls.h"

namespace headroom::preload::driver {

// Finds free nodes among `dependencies` and their ancestors whose block on this device has at least `wanted`
// bytes and is not reused yet. The nearest come first. The search ends at a block of exactly `wanted` bytes,
// or a fixed number of nodes after the first hit. Returns how many nodes were written to `found`.
//
// The driver is asked for the dependencies of each visited node. If there are too many, or the driver does
// not answer, fewer free nodes are found, which charges more.
std::size_t find_earlier_frees(Opaque graph, unsigned device, std::span<const Opaque> dependencies,
                               std::uint64_t wanted, std::span<std::uint64_t> found);

// In the child after fork.
void reset_walk_in_child();

// Which default stream a variant of a driver function uses for a null stream.
enum class DefaultStream { legacy, per_thread };
inline constexpr auto kLegacy = DefaultStream::legacy, kPerThread = DefaultStream::per_thread;

// The graph that a stream is captured to, and the nodes that the stream's next node depends on.
struct Capture {
  static constexpr std::size_t kMostNodes = 64;  // further ones are ignored, which charges more
  int status = kCaptureNone;
  Opaque graph = nullptr;  // null unless a capture is active
  Opaque nodes[kMostNodes] = {};
  std::size_t count = 0;
  std::span<const Opaque> dependencies() const { return {nodes, count}; }
};
Capture capture_of(DefaultStream kind, Opaque stream);

// Adds an allocation node. The recording shows the graph as one allocation that grows with the blocks that
// its nodes need.
template <class Call, class Address>
Result allocate_node(DriverHook& hook, Opaque graph, const CurrentDevice& where, std::uint64_t bytes,
                     std::span<const Opaque> dependencies, const Call& call, const Address& address) {
  DriverLock lock;
  const std::uint64_t key = number_of(graph);
  constexpr std::size_t kMostFrees = 256;
  std::uint64_t frees[kMostFrees];
  const std::span<const std::uint64_t> earlier_frees(
      frees, find_earlier_frees(graph, where.device, dependencies, bytes, frees));
  if (!device_ledger.fits_in_graph(key, where.device, bytes, earlier_frees)) {
    lock.unlock();
    reclaim_memory(hook, where.device);
    lock.lock();
  }
  const auto growth = device_ledger.reserve_in_graph(key, where.device, bytes, earlier_frees);
  if (!growth.granted) {
    hook.record_last_refusal();
    return kOutOfMemory;
  }
  const Result result = call();
  if (result != kSuccess) {
    device_ledger.cancel_in_graph(key, where.device, bytes, growth, earlier_frees);
    return result;
  }
  device_ledger.commit_node(key, address(), where.device, bytes, growth.spare);
  hook.update_graph_charge(where.device);
  if (growth.after == growth.before) return result;
  Entry whole = entry_of(EntryType::graph, DeviceMemoryKind::graph, where, growth.after);
  whole.address = key;
  if (growth.before > 0) hook.record_release(whole);
  hook.record_allocation(whole);
  return result;
}

// The end of graphs, graph execs and captures, after the driver has destroyed them.
// `type`: a graph or a graph exec. Call it with the driver lock. `time` is that of the driver's call.
void drop_graph(DriverHook& hook, EntryType type, std::uint64_t graph, std::uint64_t time);
// Drops the graph of a capture that never ends. `graph` is 0 if the graph existed before the capture.
void drop_captured_graph(DriverHook& hook, std::uint64_t graph);
// Drops what an exec had before the driver updated it. Call it with the driver lock.
void drop_past_updates(DriverHook& hook, std::uint64_t exec, std::uint64_t time);
// The driver keeps memory of ended graph execs, and may allocate more for the next one instead of reusing it.
void trim_launched_graphs(DriverHook& hook);

}  // namespace headroom::preload::driver
