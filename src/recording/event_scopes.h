// Turns the nodes of a graph into scopes of a recording. While a thread is in a session's run, the runtime's
// profile shows which node it executes. NodeRanges rewrites the event stream as if the program had entered
// and left each node itself. WeightBlocks gives weights the scope of their layer.
//
// The profile has a resolution of 1 µs, so an allocation within 1 µs of a node's edge may be assigned to its
// neighbour. Threads of the runtime's pool are not in the scope of a run and keep their scope. Small
// allocations that were only counted stay with the run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "types/memory_event.h"

namespace headroom::recording {

// From `time` on, the thread works for `node` (an index into the scopes of add_run_scope()), or for no node.
struct NodeEdge {
  Nanoseconds time;
  std::uint32_t session = 0;  // index of the profile
  std::uint32_t node = 0;
  bool begins = false;
};

class NodeRanges {
 public:
  bool empty() const { return edges_.empty(); }
  // Adds edges of a thread, sorted by time.
  void add(ThreadIndex thread, const std::vector<NodeEdge>& edges) {
    auto& all = edges_[thread.index].edges;
    all.insert(all.end(), edges.begin(), edges.end());
    // At equal times an end comes before a beginning. Sessions may alternate on a thread.
    std::ranges::stable_sort(all, [](const NodeEdge& a, const NodeEdge& b) {
      return a.time != b.time ? a.time < b.time : a.begins < b.begins;
    });
  }
  // Sets the scopes for the nodes of profile `session` while the thread is in scope `run`. A model that is
  // loaded again runs in the same scope as before. Then several sessions have edges for it, each at its own
  // time.
  void add_run_scope(std::uint32_t session, ScopeId run, std::vector<ScopeId> nodes) {
    nodes_[key(session, run)] = std::move(nodes);
  }
  // Call this before each pass over the events.
  void rewind() {
    for (auto& [thread, walk] : edges_) walk.next = 0, walk.scope = {}, walk.real = {}, walk.session = 0;
  }

  // Passes the event on with its node as the scope, after the node changes that happened before it.
  template <class Visit>
  void visit(const MemoryEvent& event, Visit&& visit) {
    const auto found = edges_.find(event.thread.index);
    if (found == edges_.end()) return visit(event);
    Walk& walk = found->second;
    while (walk.next < walk.edges.size() && walk.edges[walk.next].time <= event.time)
      pass(walk, walk.edges[walk.next++], event, visit);
    if (event.kind == MemoryEventKind::enter_scope) {
      walk.real = event.scope;
      walk.scope = event.scope;
      return visit(event);
    }
    // Counters cover all the time since the thread's last ones, so they cannot be assigned to a node.
    const bool is_counted =
        event.kind == MemoryEventKind::counters || event.kind == MemoryEventKind::release_counters;
    if (is_counted || walk.scope == walk.real || event.scope != walk.real) return visit(event);
    MemoryEvent refined = event;
    refined.scope = walk.scope;
    visit(refined);
  }

 private:
  struct Walk {
    std::vector<NodeEdge> edges;
    std::size_t next = 0;
    ScopeId scope, real{};      // scope: the node's, or else the program's; real: the program's
    std::uint32_t session = 0;  // session of the current node
  };
  static std::uint64_t key(std::uint32_t session, ScopeId run) {
    return std::uint64_t{session} << 32 | run.index;
  }

  template <class Visit>
  void pass(Walk& walk, const NodeEdge& edge, const MemoryEvent& event, Visit& visit) {
    const auto run = nodes_.find(key(edge.session, walk.real));
    if (run == nodes_.end() || (!edge.begins && edge.session != walk.session)) return;
    const ScopeId now = edge.begins ? run->second[edge.node] : walk.real;
    walk.session = edge.session;
    if (now == walk.scope) return;
    walk.scope = now;
    MemoryEvent change;
    change.kind = MemoryEventKind::enter_scope;
    change.thread = event.thread;
    change.time = edge.time;
    change.scope = now;
    visit(change);
  }

  std::unordered_map<std::uint32_t, Walk> edges_;                  // by thread
  std::unordered_map<std::uint64_t, std::vector<ScopeId>> nodes_;  // by session and the run's scope
};

// Finds the allocations that are weights. A program allocates weights before it calls any module, so their
// layer is known only later. When the tracer first sees the module, it records the addresses of its weights
// (ExtensionKind::weight). A first pass over the events finds these allocations. All later passes give them
// the layer's scope from the start, as if the program had allocated them in that scope.
class WeightBlocks {
 public:
  // Takes each event of the first pass, ordered by time.
  void observe(const MemoryEvent& event) {
    switch (event.kind) {
      case MemoryEventKind::allocate:
      case MemoryEventKind::sampled_allocate:
        live_[event.address] = event.time;
        return;
      case MemoryEventKind::release:
        live_.erase(event.address);
        return;
      case MemoryEventKind::weight: {
        const auto found = live_.find(event.address);
        if (found == live_.end()) return;  // only counted, or mapped, or device memory
        // The first module wins: tied weights are one block.
        scopes_.try_emplace({event.address, found->second}, ScopeId{static_cast<std::uint32_t>(event.count)});
        return;
      }
      default:
        return;
    }
  }
  void finish_pass() { live_ = {}; }

  bool empty() const { return scopes_.empty(); }
  // Returns the event; an allocation of a weight gets its layer's scope.
  MemoryEvent with_layer_scope(const MemoryEvent& event) const {
    MemoryEvent result = event;
    if (event.kind == MemoryEventKind::allocate || event.kind == MemoryEventKind::sampled_allocate)
      if (const auto found = scopes_.find({event.address, event.time}); found != scopes_.end())
        result.scope = found->second, result.is_weight = true;
    return result;
  }

 private:
  struct Key {
    std::uint64_t address;
    Nanoseconds time;  // of the allocation
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return (key.address ^ static_cast<std::uint64_t>(key.time.count) << 20) * 0x9e3779b97f4a7c15 >> 20;
    }
  };
  std::unordered_map<std::uint64_t, Nanoseconds> live_;
  std::unordered_map<Key, ScopeId, Hash> scopes_;
};

}  // namespace headroom::recording
