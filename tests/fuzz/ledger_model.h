// A slow and simple model of the ledger, for its fuzzer: what each call charges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace headroom::ledger {

struct Model {
  struct Block {
    std::uint64_t bytes, context;
    std::uint64_t pool = 0;
  };
  struct Physical {
    std::uint64_t bytes;
    int references;
  };
  struct Pool {
    std::uint64_t used = 0, charged = 0, figure = 0;
  };
  struct Graph {
    std::uint64_t charged = 0, blocks = 0;
    int users = 1;         // one for the handle, and one for each driver call in progress
    bool may_run = false;  // an exec was instantiated from it
  };
  std::map<std::uint64_t, Block> blocks;
  std::map<int, Physical> physical;
  std::map<std::uint64_t, std::pair<int, int>> handles;  // references, physical
  std::map<std::uint64_t, int> mappings;
  std::map<std::uint64_t, Pool> pools;
  std::map<std::uint64_t, Pool> destroyed_pools;  // under artificial numbers that are not handles
  struct Node {
    std::uint64_t graph, bytes, block;
  };
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> frees;  // free nodes: graph, block
  std::uint64_t leaving = 0;                                               // bytes of destroyed graphs
  std::uint64_t beyond = 0, graph_figure = 0;
  std::map<std::uint64_t, Graph> graphs;  // a graph without a handle has an artificial number
  std::map<std::uint64_t, Node> nodes;
  std::map<std::uint64_t, std::uint64_t> left;  // allocations of destroyed graphs: bytes
  std::map<std::uint64_t, std::uint64_t> execs;
  struct Instance {
    std::uint64_t exec, graph, charged;
    bool is_update;
  };
  std::vector<Instance> instances;
  int next = 0;
  std::uint64_t pool_step = 0;   // divides all growth that was seen
  std::uint64_t graph_step = 0;  // assumed; pools do not change it

  std::uint64_t charged() const {
    std::uint64_t sum = 0;
    for (const auto& [address, block] : blocks) sum += block.pool == 0 ? block.bytes : 0;
    for (const auto& [number, one] : physical) sum += one.bytes;
    for (const auto& [handle, pool] : pools) sum += pool.charged;
    for (const auto& [number, pool] : destroyed_pools) sum += pool.charged;
    return sum + charged_for_graphs() + beyond;
  }
  std::uint64_t charged_for_graphs() const {
    std::uint64_t sum = 0;
    for (const auto& [handle, graph] : graphs) sum += graph.charged;
    for (const Instance& one : instances) sum += one.charged;
    return sum + bytes_left() + leaving;
  }
  std::uint64_t in_steps(std::uint64_t bytes) const {
    while (graph_step > 0 && bytes % graph_step != 0) ++bytes;
    return bytes;
  }
  std::uint64_t bytes_left() const {
    std::uint64_t sum = 0;
    for (const auto& [address, bytes] : left) sum += bytes;
    return sum;
  }
  void drop_physical(int number) {
    if (--physical.at(number).references == 0) physical.erase(number);
  }
  void drop_graph(std::uint64_t graph) {
    if (--graphs.at(graph).users > 0) return;
    if (graphs.at(graph).may_run) {
      leaving += graphs.at(graph).charged;
      for (const auto& [address, node] : nodes)
        if (node.graph == graph) {
          left[address] = node.bytes;
          leaving -= node.bytes;
        }
    }
    graphs.erase(graph);
    std::erase_if(frees, [&](const auto& one) { return one.second.first == graph; });
    std::erase_if(nodes, [&](const auto& node) { return node.second.graph == graph; });
  }
  // The handle is reused while an exec still holds the graph: give the graph an artificial number.
  void give_up_handle(std::uint64_t graph) {
    const auto found = graphs.find(graph);
    if (found == graphs.end()) return;
    const std::uint64_t name = 0x10000 + static_cast<std::uint64_t>(++next);
    graphs[name] = found->second;
    graphs.erase(graph);
    std::erase_if(frees, [&](const auto& one) { return one.second.first == graph; });
    for (auto& [address, node] : nodes)
      if (node.graph == graph) node.graph = name;
    for (auto& [exec, of] : execs)
      if (of == graph) of = name;
    for (Instance& one : instances)
      if (one.graph == graph) one.graph = name;
  }
  bool has_handle(std::uint64_t graph) const { return graph < 0x10000; }
  int holders_of(std::uint64_t graph) const { return graphs.at(graph).users - (has_handle(graph) ? 1 : 0); }
  std::uint64_t bytes_of_nodes(std::uint64_t graph) const {
    std::uint64_t bytes = 0;
    for (const auto& [address, node] : nodes) bytes += node.graph == graph ? node.block : 0;
    return bytes;
  }
  // The exec's charge becomes leaving. The graph's own charge passes to a remaining exec.
  void drop_instance(Instance gone) {
    Instance* most = nullptr;
    bool has_another = false;
    for (Instance& one : instances) {
      if (one.graph != gone.graph) continue;
      has_another = has_another || one.charged == 0;
      if (one.charged > (most != nullptr ? most->charged : 0)) most = &one;
    }
    if (gone.charged == 0 && most != nullptr && !has_another) std::swap(gone.charged, most->charged);
    leaving += gone.charged;
    Graph& graph = graphs.at(gone.graph);
    if (gone.charged == 0 && holders_of(gone.graph) == 1 && has_handle(gone.graph) &&
        bytes_of_nodes(gone.graph) == 0)
      leaving += std::exchange(graph.charged, 0);
    drop_graph(gone.graph);
  }
  void drop_instances(std::uint64_t exec, bool updates) {
    for (std::size_t i = 0; i < instances.size();) {
      if (instances[i].exec != exec || instances[i].is_update != updates) {
        ++i;
        continue;
      }
      const Instance gone = instances[i];
      instances.erase(instances.begin() + static_cast<std::ptrdiff_t>(i));
      drop_instance(gone);
    }
  }
  void free_block(std::uint64_t address) {
    const Block block = blocks.at(address);
    blocks.erase(address);
    if (block.pool == 0) return;
    const auto pool = pools.find(block.pool), destroyed = destroyed_pools.find(block.pool);
    if (pool != pools.end()) pool->second.used -= block.bytes;
    // A pool without a charge when it was destroyed only had allocations of zero bytes.
    if (destroyed != destroyed_pools.end()) destroyed->second.used -= block.bytes;
  }
  void destroy_pool(std::uint64_t pool) {
    const auto found = pools.find(pool);
    if (found == pools.end()) return;
    const std::uint64_t number = 1000 + static_cast<std::uint64_t>(++next);
    if (found->second.charged > 0) destroyed_pools[number] = found->second;
    pools.erase(found);
    for (auto& [address, block] : blocks)
      if (block.pool == pool) block.pool = number;
  }
};

}  // namespace headroom::ledger
