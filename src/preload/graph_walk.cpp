#include "preload/graph_walk.h"

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
  const Result result = real.cuGraphNodeGetDependencies_v2 != nullptr
                            ? real.cuGraphNodeGetDependencies_v2(handle, dependencies.data(), edges, &count)
                        : real.cuGraphNodeGetDependencies != nullptr
                            ? real.cuGraphNodeGetDependencies(handle, dependencies.data(), &count)
                            : kNotFound;
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

}  // namespace headroom::preload::driver
