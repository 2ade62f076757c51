// Memory nodes of graphs: charged for the most that is live at once, until the graph and its instances are
// gone. What none of its nodes frees, and a launch made, outlives even that (CUDA's programming guide, "Graph
// memory nodes"): it is then an allocation of its own.
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
  const Growth growth = reserve_in(whole, bytes, 1);
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

bool Ledger::free_node(std::uint64_t graph, std::uint64_t address) {
  const Locked locked(*this);
  const Entry* const known = table_.find(Space::pointer, address);
  if (known == nullptr || !is_node(*known) || known->link != graph) return false;
  Entry node;
  table_.take(Space::pointer, address, node);
  count_out(node);
  if (Entry* const whole = table_.find(Space::graph, graph))
    whole->bytes -= node.bytes < whole->bytes ? node.bytes : whole->bytes;
  return true;
}

void Ledger::move_graph(std::uint64_t child, std::uint64_t parent) {
  const Locked locked(*this);
  Entry moved;
  if (!table_.take(Space::graph, child, moved)) return;
  Entry* const whole = table_.find(Space::graph, parent);
  if (whole == nullptr) {
    moved.address = parent;
    table_.insert(moved);
  } else {
    // When the child runs in the parent is not known: perhaps while all that is the parent's is live.
    whole->bytes += moved.bytes;
    whole->charged += moved.charged;
    if (moved.device != whole->device) {
      account_.charge_anyway(whole->device, moved.charged);
      account_.discharge(moved.device, moved.charged);
    }
  }
  std::size_t place = 0;
  for (Entry* node = nullptr; (node = table_.find_from(place, [&](const Entry& one) {
                                return is_node(one) && one.link == child;
                              })) != nullptr;)
    node->link = parent;
}

void Ledger::instantiate(std::uint64_t graph, std::uint64_t exec) {
  const Locked locked(*this);
  Entry* const entry = table_.find(Space::graph, graph);
  if (entry == nullptr) return;
  ++entry->references;
  entry->link = exec;  // of a graph: what was instantiated from it last
  Entry instance;
  instance.space = Space::graph_exec;
  instance.address = exec;
  instance.link = graph;
  instance.device = entry->device;
  instance.kind = DeviceMemoryKind::graph;
  table_.insert(instance);
}

bool Ledger::destroy_graph(Space space, std::uint64_t handle, Entry& freed) {
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
  const bool may_have_run = freed.link != 0;
  std::uint64_t left_there = 0;  // of what the graph is charged
  std::size_t place = 0;
  while (Entry* const node =
             table_.find_from(place, [&](const Entry& one) { return is_node(one) && one.link == graph; })) {
    if (!may_have_run) {
      Entry gone;
      table_.take_at(place, gone);
      count_out(gone);
      continue;
    }
    node->link = 0;
    node->references = 0;
    node->charged = node->bytes;
    if (node->device == freed.device)
      left_there += node->bytes;
    else
      account_.charge_anyway(node->device, node->bytes);
    graphs_left_some_ = true;
  }
  account_.discharge(freed.device, freed.charged - (left_there < freed.charged ? left_there : freed.charged));
  return true;
}

namespace {

bool is_left_by_graph(const Entry& entry) {
  return entry.space == Space::pointer && entry.kind == DeviceMemoryKind::graph && entry.link == 0;
}

}  // namespace

bool Ledger::next_left_by_graph(unsigned device, std::size_t& place, Entry& left) {
  const Locked locked(*this);
  const Entry* const found = table_.find_from(
      place, [&](const Entry& entry) { return is_left_by_graph(entry) && entry.device == device; });
  if (found != nullptr) left = *found;
  return found != nullptr;
}

bool Ledger::keep_left_by_graph(std::uint64_t address) {
  const Locked locked(*this);
  Entry* const entry = table_.find(Space::pointer, address);
  if (entry == nullptr || !is_left_by_graph(*entry)) return false;
  entry->references = 1;
  return true;
}

bool Ledger::drop_left_by_graph(std::uint64_t address, Entry& left) {
  {
    const Locked locked(*this);
    const Entry* const entry = table_.find(Space::pointer, address);
    if (entry == nullptr || !is_left_by_graph(*entry)) return false;
    table_.take(Space::pointer, address, left);
  }
  finish_release(left);
  return true;
}

void Ledger::begin_capture(std::uint64_t stream, std::uint64_t graph) {
  const Locked locked(*this);
  Entry capture;
  capture.space = Space::capture;
  capture.address = stream;
  capture.link = graph;
  table_.insert(capture);
}

std::uint64_t Ledger::end_capture(std::uint64_t stream) {
  const Locked locked(*this);
  Entry capture;
  return table_.take(Space::capture, stream, capture) ? capture.link : 0;
}

std::uint64_t Ledger::charged_for_graphs(unsigned device) {
  const Locked locked(*this);
  std::uint64_t charged = 0;
  std::size_t place = 0;
  const auto is_charged = [&](const Entry& one) {
    return one.device == device && (one.space == Space::graph || is_left_by_graph(one));
  };
  for (; const Entry* const one = table_.find_from(place, is_charged); ++place) charged += one->charged;
  return charged;
}

}  // namespace headroom::ledger
