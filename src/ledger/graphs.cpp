// Memory nodes of graphs: charged for the most that is live at once, until the graph and its instances are
// gone.
#include "ledger/ledger.h"
#include "ledger/ledger_lock.h"

namespace headroom::ledger {

bool Ledger::reserve_in_graph(std::uint64_t graph, unsigned device, std::uint64_t bytes,
                              std::uint64_t& before, std::uint64_t& after) {
  Entry whole;
  whole.space = Space::graph;
  whole.address = graph;
  whole.device = static_cast<std::uint16_t>(device);
  whole.kind = DeviceMemoryKind::graph;
  // In a graph of several devices each node would have to be charged to its own; the first has it all.
  const Growth growth = reserve_in(whole, bytes);
  before = growth.before;
  after = growth.after;
  if (!growth.granted) refuse(device, DeviceMemoryKind::graph, bytes);
  return growth.granted;
}

void Ledger::cancel_in_graph(std::uint64_t graph, std::uint64_t bytes) {
  cancel_in(Space::graph, graph, bytes);
}

void Ledger::commit_node(std::uint64_t graph, std::uint64_t address, unsigned device, std::uint64_t bytes) {
  Entry node;
  node.address = address;
  node.bytes = bytes;
  node.link = graph;
  node.device = static_cast<std::uint16_t>(device);
  node.kind = DeviceMemoryKind::graph;
  commit(node);
}

bool Ledger::free_node(std::uint64_t address) {
  const Locked locked(*this);
  const Entry* const known = table_.find(Space::pointer, address);
  if (known == nullptr || known->kind != DeviceMemoryKind::graph) return false;
  Entry node;
  table_.take(Space::pointer, address, node);
  count_out(node);
  if (Entry* const graph = table_.find(Space::graph, node.link))
    graph->bytes -= node.bytes < graph->bytes ? node.bytes : graph->bytes;
  return true;
}

void Ledger::instantiate(std::uint64_t graph, std::uint64_t exec) {
  const Locked locked(*this);
  Entry* const entry = table_.find(Space::graph, graph);
  if (entry == nullptr) return;
  ++entry->references;
  Entry instance;
  instance.space = Space::graph_exec;
  instance.address = exec;
  instance.link = graph;
  instance.device = entry->device;
  instance.kind = DeviceMemoryKind::graph;
  table_.insert(instance);
}

bool Ledger::destroy_graph(Space space, std::uint64_t handle, Entry& freed) {
  {
    const Locked locked(*this);
    std::uint64_t graph = handle;
    if (space == Space::graph_exec) {
      Entry instance;
      if (!table_.take(Space::graph_exec, handle, instance)) return false;
      graph = instance.link;
    }
    Entry* const entry = table_.find(Space::graph, graph);
    if (entry == nullptr || --entry->references > 0) return false;
    table_.take(Space::graph, graph, freed);
    Entry node;
    while (table_.take_if(
        [&](const Entry& one) {
          return one.space == Space::pointer && one.kind == DeviceMemoryKind::graph && one.link == graph;
        },
        node))
      count_out(node);
  }
  account_.discharge(freed.device, freed.charged);
  return true;
}

}  // namespace headroom::ledger
