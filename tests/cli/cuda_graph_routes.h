// The ways to take GPU memory by graphs: nodes that are added, and what a stream's work becomes.
#pragma once

#include "cli/cuda_routes.h"

namespace cuda_guest {

// A graph whose nodes allocate, and the instance that runs it. What a launch made lives until it is freed,
// whether the graph is there or not.
struct AllocatingGraph {
  Opaque graph = nullptr, exec = nullptr, last = nullptr;

  AllocatingGraph() {
    check(FIND((Opaque*, unsigned), "cuGraphCreate", "cuGraphCreate", 10000)(&graph, 0), "graph");
  }
  Result allocate(std::uint64_t bytes, Pointer& pointer) {
    AllocationNode node{};
    node.pool.type = 1;
    node.pool.location = {kLocationDevice, 0};
    node.bytes = bytes;
    Opaque made = nullptr;
    const Result result = FIND((Opaque*, Opaque, const Opaque*, std::size_t, AllocationNode*),
                               "cuGraphAddMemAllocNode", "cuGraphAddMemAllocNode", 11040)(
        &made, graph, last != nullptr ? &last : nullptr, last != nullptr ? 1 : 0, &node);
    if (result != kSuccess) return result;
    last = made;
    pointer = node.address;
    return result;
  }
  void free(Pointer pointer) {
    Opaque made = nullptr;
    check(FIND((Opaque*, Opaque, const Opaque*, std::size_t, Pointer), "cuGraphAddMemFreeNode",
               "cuGraphAddMemFreeNode",
               11040)(&made, graph, last != nullptr ? &last : nullptr, last != nullptr ? 1 : 0, pointer),
          "free node");
    last = made;
  }
  void instantiate() {
    check(FIND((Opaque*, Opaque, unsigned long long), "cuGraphInstantiateWithFlags",
               "cuGraphInstantiateWithFlags", 11040)(&exec, graph, 0),
          "instantiate");
  }
  void launch() {
    check(FIND((Opaque, Opaque), "cuGraphLaunch", "cuGraphLaunch", 10000)(exec, nullptr), "launch");
    check(FIND((), "cuCtxSynchronize", "cuCtxSynchronize", 2000)(), "synchronize");
  }
  void destroy() {
    check(FIND((Opaque), "cuGraphDestroy", "cuGraphDestroy", 10000)(graph), "graph destroy");
    check(FIND((Opaque), "cuGraphExecDestroy", "cuGraphExecDestroy", 10000)(exec), "exec destroy");
    graph = exec = last = nullptr;
  }
};

// Nodes of one graph. It is launched before it is destroyed, or never.
struct GraphNodes : Pointers {
  bool runs;
  std::vector<AllocatingGraph> graph;  // one or none
  explicit GraphNodes(bool runs_it) : runs(runs_it) {}
  Result take(std::uint64_t step, std::uint64_t& cost) override {
    cost = step;
    if (graph.empty()) graph.emplace_back();
    Pointer pointer = 0;
    return keep(graph[0].allocate(step, pointer), pointer);
  }
  void free_all() override {
    const std::uint64_t left_before = left();
    graph[0].instantiate();
    if (runs) graph[0].launch();
    graph[0].destroy();
    graph.clear();
    if (!runs) return all.clear();
    if (left() != left_before) give_up("what a graph made is live without it", "left", 0);
    Pointers::free_all();
  }
};

// A stream's work that was to become a graph, and does not: waiting for the stream is an error meanwhile.
// (7000 is the first version that has the call for the stream of each thread.)
struct FailedCapture : Route {
  Opaque stream = nullptr;
  bool is_begun = false;
  Result take(std::uint64_t step, std::uint64_t& cost) override {
    constexpr int kRelaxed = 2;
    cost = step;
    if (stream == nullptr)
      check(FIND((Opaque*, unsigned), "cuStreamCreate", "cuStreamCreate", 2000)(&stream, 1), "stream");
    if (!is_begun)
      check(FIND((Opaque, int), "cuStreamBeginCapture_v2", "cuStreamBeginCapture", 10010)(stream, kRelaxed),
            "begin capture");
    is_begun = true;
    Pointer pointer = 0;
    return FIND((Pointer*, std::size_t, Opaque), "cuMemAllocAsync", "cuMemAllocAsync", 11020)(&pointer, step,
                                                                                              stream);
  }
  void free_all() override {
    if (FIND((Opaque), "cuStreamSynchronize", "cuStreamSynchronize", 7000)(stream) == kSuccess)
      give_up("a stream could be waited for while it was captured", "cuStreamSynchronize", 0);
    Opaque graph = nullptr;
    if (FIND((Opaque, Opaque*), "cuStreamEndCapture", "cuStreamEndCapture", 10000)(stream, &graph) ==
            kSuccess ||
        graph != nullptr)
      give_up("a capture that failed gave a graph", "cuStreamEndCapture", 0);
    is_begun = false;
  }
};

// What is live when, by the ways in which a graph's memory is freed.
inline bool run_graph_lives(std::uint64_t limit, std::uint64_t step) {
  const auto free = FIND((Pointer), "cuMemFree_v2", "cuMemFree", 3020);
  bool all_sound = true;
  const auto expect = [&](const char* what, std::uint64_t held) {
    const std::uint64_t found = left();
    const bool sound = found == limit - held;
    std::printf("lives    %s: left %llu of %llu: %s\n", what, static_cast<unsigned long long>(found),
                static_cast<unsigned long long>(limit), sound ? "as it should" : "WRONG");
    all_sound = all_sound && sound;
  };
  Pointer pointer = 0;
  {
    AllocatingGraph graph;
    check(graph.allocate(step, pointer), "node");
    graph.instantiate();
    graph.launch();
    check(free(pointer), "free");
    expect("freed, the graph keeps it", step);
    graph.launch();
    graph.destroy();
    expect("made again, and the graph gone", step);
    check(free(pointer), "free");
    expect("freed", 0);
  }
  {
    AllocatingGraph graph;
    check(graph.allocate(step, pointer), "node");
    graph.instantiate();
    graph.launch();
    check(free(pointer), "free");
    graph.destroy();
    expect("freed, and the graph gone", 0);
  }
  {
    AllocatingGraph graph, other;
    check(graph.allocate(step, pointer), "node");
    graph.instantiate();
    graph.launch();
    other.free(pointer);
    other.instantiate();
    graph.destroy();
    expect("to be freed by another graph", step);
    other.launch();
    other.destroy();
    expect("freed by another graph", 0);
  }
  std::printf("lives    %s\n", all_sound ? "each graph's memory as long as it lives: sound" : "WRONG");
  return all_sound;
}

}  // namespace cuda_guest
