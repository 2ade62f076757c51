// Memory nodes of graphs, added by graph calls or by stream capture.
#pragma once

#include "preload/device_reclaim.h"
#include "preload/graph_walk.h"

namespace headroom::preload::driver {

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

}  // namespace headroom::preload::driver
