// Memory nodes of graphs: charged for the most that can be live at once, until the graph and its instances
// are gone. What none of its nodes frees, and a launch made, outlives even that (CUDA's programming guide,
// "Graph memory nodes"): it is then an allocation of its own.
//
// A node takes what another freed only if the graph orders it behind that one ("allocations whose graph
// ordered lifetimes do not overlap", the guide says). So each node that frees leaves its bytes under its own
// number, and who adds a node names those that it comes behind.
//
// What a graph leaves when it is destroyed is leaving: an instance that still runs is freed when it has
// ended, and the driver keeps memory for the next graph. It is charged until the driver's own figure is
// smaller.
#include "ledger/ledger.h"
#include "ledger/ledger_lock.h"

namespace headroom::ledger {
namespace {

// A graph's or an instance's handle on one device; on the first it is the handle.
std::uint64_t on_device(std::uint64_t handle, unsigned device) {
  constexpr unsigned kAboveAddresses = 57;
  return handle ^ std::uint64_t{device} << kAboveAddresses;
}

std::uint64_t smaller(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }

bool is_left_by_graph(const Entry& entry) {
  return entry.space == Space::pointer && entry.kind == DeviceMemoryKind::graph && entry.link == 0;
}

}  // namespace

Ledger::GraphGrowth Ledger::reserve_in_graph(std::uint64_t graph, unsigned device, std::uint64_t bytes,
                                             std::span<const std::uint64_t> freed_before) {
  GraphGrowth growth;
  {
    const Locked locked(*this);
    Entry fresh;
    fresh.space = Space::graph;
    fresh.address = on_device(graph, device);
    fresh.device = static_cast<std::uint16_t>(device);
    fresh.kind = DeviceMemoryKind::graph;
    if (Entry* const whole = find_or_insert(fresh)) {
      const auto freed = [&](std::uint64_t node) {
        Entry* const found = table_.find(Space::graph_free, node);
        return found != nullptr && found->link == fresh.address ? found : nullptr;
      };
      std::uint64_t more = bytes;
      for (const std::uint64_t node : freed_before)
        if (const Entry* const found = freed(node)) more -= smaller(more, found->bytes);
      growth.before = whole->charged;
      growth.granted = more == 0 || account_.charge(whole->device, more);
      if (growth.granted) {
        whole->charged += more;
        whole->bytes += bytes;
        std::uint64_t taken = bytes - more;
        for (const std::uint64_t node : freed_before)
          if (Entry* const found = freed(node)) {
            const std::uint64_t part = smaller(taken, found->bytes);
            found->bytes -= part;
            taken -= part;
          }
      }
      growth.after = whole->charged;
    }
  }
  if (!growth.granted) refuse(device, DeviceMemoryKind::graph, bytes);
  return growth;
}

void Ledger::cancel_in_graph(std::uint64_t graph, unsigned device, std::uint64_t bytes,
                             const GraphGrowth& growth, std::span<const std::uint64_t> freed_before) {
  const Locked locked(*this);
  Entry* const whole = table_.find(Space::graph, on_device(graph, device));
  if (whole == nullptr) return;
  const std::uint64_t grown = smaller(growth.after - growth.before, whole->charged);
  whole->bytes -= smaller(bytes, whole->bytes);
  whole->charged -= grown;
  account_.discharge(whole->device, grown);
  // What it had taken of others is free for the next again; it is no matter which of them has it.
  for (const std::uint64_t node : freed_before)
    if (Entry* const found = table_.find(Space::graph_free, node);
        found != nullptr && found->link == whole->address) {
      found->bytes += bytes - smaller(grown, bytes);
      break;
    }
}

void Ledger::commit_node(std::uint64_t graph, std::uint64_t address, unsigned device, std::uint64_t bytes) {
  Entry node;
  node.address = address;
  node.bytes = bytes;
  node.link = on_device(graph, device);
  node.device = static_cast<std::uint16_t>(device);
  node.kind = DeviceMemoryKind::graph;
  commit(node);
}

bool Ledger::free_node(std::uint64_t graph, std::uint64_t address, std::uint64_t node) {
  const Locked locked(*this);
  const Entry* const known = table_.find(Space::pointer, address);
  if (known == nullptr || !is_node(*known) || known->link != on_device(graph, known->device)) return false;
  Entry freed;
  table_.take(Space::pointer, address, freed);
  count_out(freed);
  Entry* const whole = table_.find(Space::graph, freed.link);
  if (whole == nullptr) return true;
  whole->bytes -= smaller(freed.bytes, whole->bytes);
  if (node == 0) return true;
  freed.space = Space::graph_free;
  freed.address = node;
  freed.charged = 0;
  table_.insert(freed);
  return true;
}

std::uint64_t Ledger::freed_by_node(std::uint64_t graph, unsigned device, std::uint64_t node) {
  const Locked locked(*this);
  const Entry* const found = table_.find(Space::graph_free, node);
  return found != nullptr && found->link == on_device(graph, device) ? found->bytes : 0;
}

// All that is charged and not live was freed by nodes.
bool Ledger::has_freed_nodes(std::uint64_t graph, unsigned device) {
  const Locked locked(*this);
  const Entry* const whole = table_.find(Space::graph, on_device(graph, device));
  return whole != nullptr && whole->charged > whole->bytes;
}

void Ledger::drop_nodes_that_free(std::uint64_t graph_on_device) {
  std::size_t place = 0;
  Entry gone;
  while (table_.find_from(place, [&](const Entry& one) {
    return one.space == Space::graph_free && one.link == graph_on_device;
  }) != nullptr)
    table_.take_at(place, gone);
}

void Ledger::move_graph(std::uint64_t child, std::uint64_t parent) {
  const Locked locked(*this);
  for (unsigned device = 0; device < kMostDevices; ++device) {
    const std::uint64_t from = on_device(child, device), to = on_device(parent, device);
    Entry moved;
    if (!table_.take(Space::graph, from, moved)) continue;
    if (Entry* const whole = table_.find(Space::graph, to)) {
      // When the child runs in the parent is not known: perhaps while all that is the parent's is live.
      whole->bytes += moved.bytes;
      whole->charged += moved.charged;
    } else {
      moved.address = to;
      table_.insert(moved);
    }
    std::size_t place = 0;
    for (Entry* part = nullptr; (part = table_.find_from(place, [&](const Entry& one) {
                                  return (is_node(one) || one.space == Space::graph_free) && one.link == from;
                                })) != nullptr;)
      part->link = to;
  }
}

void Ledger::instantiate(std::uint64_t graph, std::uint64_t exec) {
  const Locked locked(*this);
  for (unsigned device = 0; device < kMostDevices; ++device) {
    Entry* const entry = table_.find(Space::graph, on_device(graph, device));
    if (entry == nullptr) continue;
    ++entry->references;
    entry->link = exec;  // of a graph: what was instantiated from it last
    Entry instance;
    instance.space = Space::graph_exec;
    instance.address = on_device(exec, device);
    instance.link = entry->address;
    instance.device = entry->device;
    instance.kind = DeviceMemoryKind::graph;
    table_.insert(instance);
  }
}

bool Ledger::destroy_graph(Space space, std::uint64_t handle, unsigned& device, Entry& freed) {
  const Locked locked(*this);
  for (; device < kMostDevices; ++device) {
    std::uint64_t graph = on_device(handle, device);
    if (space == Space::graph_exec) {
      Entry instance;
      if (!table_.take(Space::graph_exec, graph, instance)) continue;
      graph = instance.link;
    }
    Entry* const entry = table_.find(Space::graph, graph);
    if (entry == nullptr || --entry->references > 0) continue;
    table_.take(Space::graph, graph, freed);
    freed.address = on_device(graph, device);  // the handle
    drop_nodes_that_free(graph);
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
      left_there += node->bytes;
      graphs_left_some_ = true;
    }
    const std::uint64_t leaving = freed.charged - smaller(left_there, freed.charged);
    // What never ran has no memory.
    if (may_have_run)
      keep_as_leaving(device, leaving);
    else
      account_.discharge(device, leaving);
    return true;
  }
  return false;
}

void Ledger::finish_release_of_graph(const Entry& entry) {
  const Locked locked(*this);
  count_out(entry);
  if (entry.device < kMostDevices) keep_as_leaving(entry.device, entry.charged);
}

void Ledger::settle_leaving_graphs(unsigned device, std::uint64_t reserved_bytes) {
  if (device >= kMostDevices) return;
  const Locked locked(*this);
  std::uint64_t& leaving = devices_[device].leaving_graphs;
  if (leaving == 0) return;
  // What graphs left and is live is in the figure, and charged by itself.
  std::uint64_t left = 0;
  table_.for_each([&](const Entry& entry) {
    if (is_left_by_graph(entry) && entry.device == device) left += entry.charged;
  });
  const std::uint64_t most = reserved_bytes - smaller(left, reserved_bytes);
  if (leaving <= most) return;
  account_.discharge(device, leaving - most);
  leaving = most;
}

bool Ledger::has_leaving_graphs(unsigned device) {
  const Locked locked(*this);
  return device < kMostDevices && devices_[device].leaving_graphs > 0;
}

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
  finish_release_of_graph(left);
  return true;
}

void Ledger::begin_capture(std::uint64_t stream, std::uint64_t graph) {
  const Locked locked(*this);
  Entry capture;
  capture.space = Space::capture;
  capture.address = stream;
  capture.link = graph;
  if (table_.find(Space::capture, stream) == nullptr) ++captures_;
  table_.insert(capture);
}

std::uint64_t Ledger::end_capture(std::uint64_t stream) {
  const Locked locked(*this);
  Entry capture;
  if (!table_.take(Space::capture, stream, capture)) return 0;
  --captures_;
  return capture.link;
}

std::uint64_t Ledger::charged_for_graphs(unsigned device) {
  const Locked locked(*this);
  std::uint64_t charged = device < kMostDevices ? devices_[device].leaving_graphs : 0;
  table_.for_each([&](const Entry& one) {
    if (one.device == device && (one.space == Space::graph || is_left_by_graph(one))) charged += one.charged;
  });
  return charged;
}

}  // namespace headroom::ledger
