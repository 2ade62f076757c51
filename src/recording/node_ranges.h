// The nodes of a graph as scopes of a recording: while a thread is in a session's run, the runtime's own
// profile says which node it works for. Rewrites the stream of events as if the program had entered and left
// each node itself.
//
// The profile counts in microseconds, so an allocation within one of a node's edge may go to its neighbour.
// Threads of the runtime's pool are in no run's scope and keep their own. Small allocations that were only
// counted stay with the run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/memory_event.h"

namespace headroom::recording {

// From `time` on the thread works for `node` (an index that node_scope() turns into a scope), or for none.
struct NodeEdge {
  Nanoseconds time;
  std::uint32_t session = 0;  // index of the profile
  std::uint32_t node = 0;
  bool begins = false;
};

class NodeRanges {
 public:
  bool empty() const { return edges_.empty(); }
  // Edges of a thread, in the order of time.
  void add(ThreadIndex thread, const std::vector<NodeEdge>& edges);
  // The nodes of profile `session` are these scopes when the thread is in the scope `run`. A model that is
  // loaded again runs in the scope in which it ran before: there are edges of several sessions then, each at
  // its time.
  void add_run_scope(std::uint32_t session, ScopeId run, std::vector<ScopeId> nodes) {
    nodes_[key(session, run)] = std::move(nodes);
  }
  void rewind() {
    for (auto& [thread, walk] : edges_) walk.next = 0, walk.scope = {}, walk.real = {}, walk.session = 0;
  }

  // Passes the event on with its node as scope, and before it the changes of node that are due.
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
    // Counters tell of all the time since the thread's last ones, so no node can be said for them.
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
    ScopeId scope, real{};      // the node's or the program's own; the program's own
    std::uint32_t session = 0;  // whose node it is
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

inline void NodeRanges::add(ThreadIndex thread, const std::vector<NodeEdge>& edges) {
  auto& all = edges_[thread.index].edges;
  all.insert(all.end(), edges.begin(), edges.end());
  // At one moment an end comes before a beginning; sessions may alternate on a thread.
  std::stable_sort(all.begin(), all.end(), [](const NodeEdge& a, const NodeEdge& b) {
    return a.time != b.time ? a.time < b.time : a.begins < b.begins;
  });
}

}  // namespace headroom::recording
