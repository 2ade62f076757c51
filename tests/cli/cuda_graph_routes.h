// Routes that allocate GPU memory by graphs: added nodes, and stream capture.
#pragma once

#include "cli/cuda_routes.h"

namespace cuda_program {

// A graph with memory nodes, and the exec that runs it. Memory of a launch lives until it is freed, even if
// the graph is destroyed before.
struct AllocatingGraph {
  Opaque graph = nullptr, exec = nullptr, last = nullptr;

  AllocatingGraph() { check(cuGraphCreate(&graph, 0), "graph"); }
  Result allocate(std::uint64_t bytes, Pointer& pointer) {
    AllocationNode node{};
    node.pool.type = 1;
    node.pool.location = {kLocationDevice, 0};
    node.bytes = bytes;
    Opaque made = nullptr;
    const Result result = cuGraphAddMemAllocNode(&made, graph, last != nullptr ? &last : nullptr,
                                                 last != nullptr ? 1 : 0, &node);
    if (result != kSuccess) return result;
    last = made;
    pointer = node.address;
    return result;
  }
  // Adds a node, and one that frees its memory.
  Result allocate_and_free(std::uint64_t bytes) {
    Pointer pointer = 0;
    const Result result = allocate(bytes, pointer);
    if (result == kSuccess) free(pointer);
    return result;
  }
  void free(Pointer pointer) {
    Opaque made = nullptr;
    check(cuGraphAddMemFreeNode(&made, graph, last != nullptr ? &last : nullptr, last != nullptr ? 1 : 0,
                                pointer),
          "free node");
    last = made;
  }
  void instantiate() { check(cuGraphInstantiateWithFlags(&exec, graph, 0), "instantiate"); }
  void launch() {
    launch_in(nullptr);
    synchronize();
  }
  void launch_in(Opaque stream) { check(cuGraphLaunch(exec, stream), "launch"); }
  // Updates the exec to another graph.
  Result update(const AllocatingGraph& other, bool by_first_version) {
    Opaque node = nullptr;
    int outcome = 0;
    if (by_first_version) return cuGraphExecUpdate(exec, other.graph, &node, &outcome);
    std::uint64_t information[8] = {};  // CUgraphExecUpdateResultInfo
    return cuGraphExecUpdate_v2(exec, other.graph, information);
  }
  void destroy_graph() {
    if (graph != nullptr) check(cuGraphDestroy(graph), "graph destroy");
    graph = last = nullptr;
  }
  void destroy_instance() {
    if (exec != nullptr) check(cuGraphExecDestroy(exec), "exec destroy");
    exec = nullptr;
  }
  void destroy() {
    destroy_graph();
    destroy_instance();
  }
};

constexpr std::uint64_t in_pool_steps(std::uint64_t bytes) {
  return (bytes + kPoolGranule - 1) / kPoolGranule * kPoolGranule;
}

// The bytes that the driver reserves for all graphs, used or not.
inline std::uint64_t reserved_for_graphs() {
  std::uint64_t bytes = 0;
  check(cuDeviceGetGraphMemAttribute(0, kGraphReservedCurrent, &bytes), "graph memory");
  return bytes;
}

// Memory nodes of one graph, which is launched before its destruction (`runs`) or never.
struct GraphNodes : Pointers {
  bool runs;
  std::vector<AllocatingGraph> graph;  // one or none
  explicit GraphNodes(bool runs_it) : runs(runs_it) {}
  Result allocate(std::uint64_t step, std::uint64_t& cost) override {
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
    const std::uint64_t left_after = left();
    if (left_after < left_before || left_after - left_before >= kPoolGranule)
      fail("memory of a destroyed graph is not charged", "left", 0);
    Pointers::free_all();
  }
  bool is_exact() const override { return false; }
  std::uint64_t granule() const override { return kPoolGranule; }
};

// A capture that fails, because the program synchronizes the captured stream. (7000 is the first driver
// version with a per-thread default stream variant of that call.)
struct FailedCapture : Route {
  Opaque stream = nullptr;
  bool is_begun = false;
  Result allocate(std::uint64_t step, std::uint64_t& cost) override {
    cost = step;
    if (stream == nullptr) stream = make_stream();
    if (!is_begun) begin_capture(stream);
    is_begun = true;
    Pointer pointer = 0;
    return cuMemAllocAsync(&pointer, step, stream);
  }
  void free_all() override {
    if (cuStreamSynchronize(stream) == kSuccess)
      fail("a captured stream could be synchronized", "cuStreamSynchronize", 0);
    Opaque graph = nullptr;
    if (cuStreamEndCapture(stream, &graph) == kSuccess || graph != nullptr)
      fail("a failed capture returned a graph", "cuStreamEndCapture", 0);
    is_begun = false;
  }
  bool is_exact() const override { return false; }
  std::uint64_t granule() const override { return kPoolGranule; }
};

// Checks what is live after each way to free a graph's memory.
inline bool run_graph_lives(std::uint64_t limit, std::uint64_t step) {
  bool all_sound = true;
  const auto expect = [&](const char* what, std::uint64_t held) {
    const std::uint64_t found = left();
    const bool sound = found == limit - in_pool_steps(held);
    std::printf("lives    %s: left %lu of %lu: %s\n", what, found, limit, sound ? "as it should" : "WRONG");
    all_sound = all_sound && sound;
  };
  const auto run_node = [&](AllocatingGraph& graph) {
    Pointer pointer = 0;
    check(graph.allocate(step, pointer), "node");
    graph.instantiate();
    graph.launch();
    return pointer;
  };
  {
    AllocatingGraph graph;
    const Pointer pointer = run_node(graph);
    free_pointer(pointer);
    expect("freed, but the graph keeps it", step);
    graph.launch();
    graph.destroy();
    expect("allocated again, graph destroyed", step);
    free_pointer(pointer);
    expect("freed", 0);
  }
  {
    AllocatingGraph graph;
    free_pointer(run_node(graph));
    graph.destroy();
    expect("freed, graph destroyed", 0);
  }
  {
    AllocatingGraph graph, other;
    other.free(run_node(graph));
    other.instantiate();
    graph.destroy();
    expect("before another graph frees it", step);
    other.launch();
    other.destroy();
    expect("freed by another graph", 0);
  }
  std::printf("lives    %s\n", all_sound ? "each graph's memory as long as it lives: sound" : "WRONG");
  return all_sound;
}

// Many small graphs, each running in its own stream: each uses a whole step of the device.
inline bool run_many_graphs(std::uint64_t limit, std::uint64_t) {
  constexpr std::uint64_t kBytes = std::uint64_t{64} << 10;
  constexpr std::size_t kMost = 4096;
  std::vector<AllocatingGraph> graphs;
  Result end = kSuccess;
  std::uint64_t most = 0;
  while (end == kSuccess && graphs.size() < kMost) {
    AllocatingGraph& graph = graphs.emplace_back();
    end = graph.allocate_and_free(kBytes);
    if (end != kSuccess) break;
    graph.instantiate();
    graph.launch_in(make_stream());
    most = std::max(most, reserved_for_graphs());
  }
  synchronize();
  const std::size_t count = graphs.size() - 1;
  for (AllocatingGraph& graph : graphs) graph.destroy();
  const bool sound = end == kOutOfMemory && count == limit / kPoolGranule && most <= limit && left() == limit;
  return report(sound, "many     %zu graphs of 64 KiB had %lu of %lu at most", count, most, limit);
}

// Execs of small graphs that are updated to large ones: each to its own graph, which is destroyed at once, or
// all to the same graph. Five of them would exceed the limit.
inline bool run_graph_updates(std::uint64_t limit, std::uint64_t) {
  constexpr std::uint64_t kSmall = std::uint64_t{64} << 10;
  const std::uint64_t large = limit / 10 * 3;
  std::uint64_t most = 0;
  const auto become = [&](AllocatingGraph& graph, AllocatingGraph& other, bool by_first_version) {
    const bool is_granted = graph.update(other, by_first_version) == kSuccess;
    if (is_granted) graph.launch();
    most = std::max(most, reserved_for_graphs());
    return is_granted;
  };
  AllocatingGraph graphs[5];
  bool sound = true;
  int updated = 0, of_one = 0, again = 0;
  for (AllocatingGraph& graph : graphs) {
    check(graph.allocate_and_free(kSmall), "small node");
    graph.instantiate();
  }
  for (AllocatingGraph& graph : graphs) {
    AllocatingGraph other;
    if (other.allocate_and_free(large) == kSuccess && become(graph, other, updated % 2 == 0)) ++updated;
    other.destroy();
  }
  sound = sound && updated > 0 && updated < 5;
  // Updates the first exec again and again, as a program does that captures each round. The memory of its
  // former graph must be released in time.
  for (AllocatingGraph& graph : graphs)
    if (&graph != graphs) graph.destroy();
  for (int i = 0; i < 20; ++i) {
    AllocatingGraph other;
    if (other.allocate_and_free(large) == kSuccess && become(graphs[0], other, false)) ++again;
    other.destroy();
  }
  graphs[0].destroy();
  sound = sound && again == 20 && left() == limit;
  AllocatingGraph one;
  sound = sound && one.allocate_and_free(large) == kSuccess;
  for (AllocatingGraph& graph : graphs) {
    graph = AllocatingGraph();
    if (graph.allocate_and_free(kSmall) != kSuccess) continue;
    graph.instantiate();
    if (become(graph, one, false)) ++of_one;
  }
  for (AllocatingGraph& graph : graphs) graph.destroy();
  one.destroy();
  sound = sound && of_one > 0 && of_one < 5 && most <= limit && left() == limit;
  return report(sound, "updates  %d of 5 execs, %d of 20 times, %d of 5 of one graph, had %lu of %lu at most",
                updated, again, of_one, most, limit);
}

// Nodes in a row, each freed before the next. Growing ones each need their own block, because the driver
// joins no blocks. Shrinking ones reuse the block of the first.
inline bool run_growing_nodes(std::uint64_t limit, std::uint64_t) {
  const auto run = [&](std::vector<std::uint64_t> parts, std::uint64_t& most) {
    AllocatingGraph graph;
    Result result = kSuccess;
    for (const std::uint64_t part : parts)
      if ((result = graph.allocate_and_free(limit / 100 * part)) != kSuccess) break;
    graph.instantiate();
    graph.launch();
    most = reserved_for_graphs();
    graph.destroy();
    return result;
  };
  std::uint64_t fits = 0, beyond = 0, shrinks = 0;
  const bool is_granted = run({7, 14, 21, 28}, fits) == kSuccess;
  const bool is_refused = run({15, 25, 35, 45}, beyond) == kOutOfMemory;
  const bool takes_again = run({80, 60, 40, 20}, shrinks) == kSuccess;
  const bool sound = is_granted && is_refused && takes_again && fits <= limit && beyond <= limit &&
                     shrinks <= limit && left() == limit;
  return report(sound, "growing  nodes that grow had %lu, then %lu, that shrink %lu of %lu", fits, beyond,
                shrinks, limit);
}

// A driver that uses more for a graph than expected: the ledger charges the difference when the figure shows
// it, until it falls. (The fake driver does that with a larger FAKE_CUDA_GRAPH_STEP; a real one may not.)
inline bool run_unforeseen(std::uint64_t limit, std::uint64_t) {
  AllocatingGraph graph;
  Pointer pointer = 0;
  check(graph.allocate(1 << 16, pointer), "node");
  graph.instantiate();
  graph.launch();
  const std::uint64_t found = left(), reserved = reserved_for_graphs();
  const bool is_refused = Plain().refuses(limit - reserved + 1);
  const bool is_granted = fits_once(whole_granules_of(limit - reserved));
  free_pointer(pointer);
  graph.destroy();
  const bool sound = found == limit - reserved && is_refused && is_granted && left() == limit;
  return report(sound, "beyond   the driver has %lu for 64 KiB, left %lu of %lu", reserved, found, limit);
}

}  // namespace cuda_program
