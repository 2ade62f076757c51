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
  // The nodes of profile `session` are scopes `first`, `first` + 1, … when the thread is in the scope `run`.
  void add_run_scope(std::uint32_t session, ScopeId run, ScopeId first) {
    first_node_[run.index] = {session, first};
  }
  void rewind() {
    for (auto& [thread, walk] : edges_) walk.next = 0, walk.scope = {}, walk.real = {};
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
    ScopeId scope, real{};  // the node's or the program's own; the program's own
  };
  struct RunScope {
    std::uint32_t session;
    ScopeId first_node;
  };

  template <class Visit>
  void pass(Walk& walk, const NodeEdge& edge, const MemoryEvent& event, Visit& visit) {
    const auto run = first_node_.find(walk.real.index);
    if (run == first_node_.end() || run->second.session != edge.session) return;
    const ScopeId now = edge.begins ? ScopeId{run->second.first_node.index + edge.node} : walk.real;
    if (now == walk.scope) return;
    walk.scope = now;
    MemoryEvent change;
    change.kind = MemoryEventKind::enter_scope;
    change.thread = event.thread;
    change.time = edge.time;
    change.scope = now;
    visit(change);
  }

  std::unordered_map<std::uint32_t, Walk> edges_;           // by thread
  std::unordered_map<std::uint32_t, RunScope> first_node_;  // by the run's scope
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
