// Memory nodes of graphs. A graph is charged for the blocks that its nodes need, until the graph and its
// execs are gone. An allocation that a launch made and no node frees outlives them (CUDA's programming guide,
// "Graph memory nodes"). It becomes a graph orphan, with a separate charge.
//
// A node reuses another's block only if the graph orders it after the node that frees the block. The guide
// says: "allocations whose graph ordered lifetimes do not overlap". So each free node keeps its block under
// its own number, and a new node lists the free nodes before it. It gets the smallest of their blocks that it
// fits in, as a whole. The driver joins no blocks: on an H100 (driver 580) nodes of 33, 65, 97 and 129 MiB,
// each freed before the next, used 320 MiB. Whether two nodes can share one block is not known, so the ledger
// assumes that they cannot.
//
// Each running graph uses whole steps. On that H100, 31 graphs of 33 MiB used 64 MiB each, and one graph of
// 300 nodes of 64 KiB used 32 MiB. If the driver's figure exceeds all charges for graphs, the difference is
// charged as unforeseen. It is reduced only when the figure falls. A new charge of another graph does not
// reduce it, because that may be for a later launch.
//
// When a graph is destroyed, its charge becomes pending. A running exec keeps its memory until it has ended,
// and the driver keeps memory for the next graph. The charge ends when the driver's figure falls.
// graph_execs.cpp charges the memory of execs.
#include "ledger/ledger.h"
#include "ledger/ledger_internal.h"

namespace headroom::ledger {

// Finds the block for a new node, and what to charge for it.
Ledger::GraphGrowth Ledger::plan_in_graph(const Entry& whole, std::uint64_t bytes,
                                          std::span<const std::uint64_t> earlier_free_nodes) {
  GraphGrowth plan;
  plan.before = plan.after = whole.of.graph.block_bytes;
  plan.reused_node = earlier_free_nodes.size();
  const Entry* block = nullptr;
  for (std::size_t i = 0; i < earlier_free_nodes.size() && bytes > 0; ++i) {
    const Entry* const freed = table_.find(EntryType::graph_free_node, earlier_free_nodes[i]);
    if (freed == nullptr || freed->owner != whole.address || freed->bytes < bytes) continue;
    if (block != nullptr && block->bytes <= freed->bytes) continue;
    block = freed;
    plan.reused_node = i;
  }
  plan.granted = true;
  if (block != nullptr)
    plan.spare = block->bytes - bytes;
  else
    plan.granted = !__builtin_add_overflow(plan.before, bytes, &plan.after);
  const std::uint64_t needed = round_up_to_step(plan.after, graph_step_.load());
  if (plan.granted) plan.charged = needed - smaller(needed, whole.charged);
  return plan;
}

Ledger::GraphGrowth Ledger::reserve_in_graph(std::uint64_t graph, unsigned device, std::uint64_t bytes,
                                             std::span<const std::uint64_t> earlier_free_nodes) {
  GraphGrowth growth;
  const Locked locked(lock_);
  const Entry fresh{.address = key_on_device(graph, device),
                    .device = static_cast<std::uint16_t>(device),
                    .type = EntryType::graph,
                    .kind = DeviceMemoryKind::graph};
  if (Entry* const whole = find_or_insert(fresh)) {
    growth = plan_in_graph(*whole, bytes, earlier_free_nodes);
    growth.granted = growth.granted && (growth.charged == 0 || account_.reserve(device, growth.charged));
    if (growth.granted) {
      whole->charged += growth.charged;
      whole->of.graph.block_bytes = growth.after;
      whole->bytes += bytes + growth.spare;
      if (device < kMaxDevices) devices_[device].graph_charge += growth.charged;
      if (growth.reused_node < earlier_free_nodes.size())
        table_.find(EntryType::graph_free_node, earlier_free_nodes[growth.reused_node])->bytes = 0;
    }
  }
  if (!growth.granted) refuse(device, DeviceMemoryKind::graph, bytes, growth.charged);
  return growth;
}

bool Ledger::fits_in_graph(std::uint64_t graph, unsigned device, std::uint64_t bytes,
                           std::span<const std::uint64_t> earlier_free_nodes) {
  const Locked locked(lock_);
  const Entry* const whole = table_.find(EntryType::graph, key_on_device(graph, device));
  const GraphGrowth plan = plan_in_graph(whole != nullptr ? *whole : Entry{}, bytes, earlier_free_nodes);
  return plan.granted && account_.would_fit(device, plan.charged);
}

void Ledger::cancel_in_graph(std::uint64_t graph, unsigned device, std::uint64_t bytes,
                             const GraphGrowth& growth, std::span<const std::uint64_t> earlier_free_nodes) {
  const Locked locked(lock_);
  Entry* const whole = table_.find(EntryType::graph, key_on_device(graph, device));
  if (whole == nullptr) return;
  const std::uint64_t block = bytes + growth.spare;
  whole->bytes -= smaller(block, whole->bytes);
  std::uint64_t& blocks = whole->of.graph.block_bytes;
  blocks -= smaller(growth.after - growth.before, blocks);
  // Another node may use a part of these steps by now.
  const std::uint64_t unneeded =
      whole->charged - smaller(round_up_to_step(blocks, graph_step_.load()), whole->charged);
  const std::uint64_t back = smaller(growth.charged, unneeded);
  whole->charged -= back;
  if (device < kMaxDevices) devices_[device].graph_charge -= back;
  account_.discharge(device, back);
  if (growth.reused_node == earlier_free_nodes.size()) return;
  if (Entry* const freed = table_.find(EntryType::graph_free_node, earlier_free_nodes[growth.reused_node]);
      freed != nullptr && freed->owner == whole->address)
    freed->bytes = block;
}

void Ledger::commit_node(std::uint64_t graph, std::uint64_t address, unsigned device, std::uint64_t bytes,
                         std::uint64_t spare) {
  commit({.address = address,
          .bytes = bytes,
          .owner = key_on_device(graph, device),
          .of = {.pointer = {.unused_bytes = spare, .free_in_progress = 0}},
          .device = static_cast<std::uint16_t>(device),
          .kind = DeviceMemoryKind::graph});
}

bool Ledger::free_node(std::uint64_t graph, std::uint64_t address, std::uint64_t node) {
  const Locked locked(lock_);
  const Entry* const known = table_.find(EntryType::pointer, address);
  if (known == nullptr || !is_node(*known) || known->owner != key_on_device(graph, known->device))
    return false;
  Entry freed;
  table_.remove(EntryType::pointer, address, freed);
  count_out(freed);
  Entry* const whole = table_.find(EntryType::graph, freed.owner);
  if (whole == nullptr) return true;
  freed.bytes += freed.of.pointer.unused_bytes;  // the whole block
  whole->bytes -= smaller(freed.bytes, whole->bytes);
  if (node == 0) return true;
  freed.type = EntryType::graph_free_node;
  freed.address = node;
  freed.charged = 0;
  freed.of = {};
  table_.insert(freed);
  return true;
}

std::uint64_t Ledger::bytes_freed_by_node(std::uint64_t graph, unsigned device, std::uint64_t node) {
  const Locked locked(lock_);
  const Entry* const found = table_.find(EntryType::graph_free_node, node);
  return found != nullptr && found->owner == key_on_device(graph, device) ? found->bytes : 0;
}

// All unused blocks were freed by nodes.
bool Ledger::has_unused_blocks(std::uint64_t graph, unsigned device, std::uint64_t bytes) {
  const Locked locked(lock_);
  const Entry* const whole = table_.find(EntryType::graph, key_on_device(graph, device));
  if (whole == nullptr) return false;
  const std::uint64_t blocks = whole->of.graph.block_bytes;
  return blocks > whole->bytes && blocks - whole->bytes >= bytes;
}

void Ledger::drop_free_nodes(std::uint64_t graph_on_device) {
  table_.remove_if([&](const Entry& one) {
    return one.type == EntryType::graph_free_node && one.owner == graph_on_device;
  });
}

void Ledger::move_graph(std::uint64_t child, std::uint64_t parent) {
  const Locked locked(lock_);
  for (unsigned device = 0; device < kMaxDevices; ++device) {
    const std::uint64_t from = key_on_device(child, device), to = key_on_device(parent, device);
    Entry moved;
    if (!table_.remove(EntryType::graph, from, moved)) continue;
    detach_execs(moved);
    if (Entry* const whole = table_.find(EntryType::graph, to)) {
      // It is unknown when the child runs in the parent: perhaps while all memory of the parent is live. So
      // both need their own blocks.
      if (!may_have_run(*whole) && moved.bytes > 0) whole->of.graph.last_exec = moved.of.graph.last_exec;
      whole->bytes += moved.bytes;
      whole->of.graph.block_bytes += moved.of.graph.block_bytes;
      whole->charged += moved.charged;
    } else {
      moved.address = to;
      table_.insert(moved);
    }
    table_.for_each([&](Entry& one) {
      if ((is_node(one) || one.type == EntryType::graph_free_node) && one.owner == from) one.owner = to;
    });
  }
}

void Ledger::finish_orphan_release(const Entry& entry) {
  const Locked locked(lock_);
  count_out(entry);
  if (entry.device >= kMaxDevices) return;
  devices_[entry.device].orphan_charge -= entry.charged;
  devices_[entry.device].pending_graph_charge += entry.charged;
}

void Ledger::settle_graph_memory(unsigned device, std::uint64_t reserved_bytes) {
  if (device >= kMaxDevices) return;
  const Locked locked(lock_);
  PerDevice& of = devices_[device];
  const std::uint64_t fallen = of.graph_figure - smaller(reserved_bytes, of.graph_figure);
  of.graph_figure = reserved_bytes;
  // The figure includes live orphans, which have their own charge.
  const std::uint64_t most = reserved_bytes - smaller(of.orphan_charge, reserved_bytes);
  if (of.pending_graph_charge > most) {
    account_.discharge(device, of.pending_graph_charge - most);
    of.pending_graph_charge = most;
  }
  const std::uint64_t foreseen = of.graph_charge + of.pending_graph_charge + of.orphan_charge;
  const std::uint64_t seen_now = reserved_bytes - smaller(foreseen, reserved_bytes);
  const std::uint64_t seen_before = of.unforeseen_graph_charge - smaller(fallen, of.unforeseen_graph_charge);
  const std::uint64_t beyond = seen_now > seen_before ? seen_now : seen_before;
  if (beyond > of.unforeseen_graph_charge) account_.force_charge(device, beyond - of.unforeseen_graph_charge);
  if (beyond < of.unforeseen_graph_charge) account_.discharge(device, of.unforeseen_graph_charge - beyond);
  of.unforeseen_graph_charge = beyond;
}

bool Ledger::has_pending_graph_memory(unsigned device) {
  const Locked locked(lock_);
  return device < kMaxDevices &&
         (devices_[device].pending_graph_charge > 0 || devices_[device].unforeseen_graph_charge > 0);
}

bool Ledger::next_graph_orphan(unsigned device, std::size_t& place, Entry& orphan) {
  const Locked locked(lock_);
  const Entry* const found = table_.find_from(
      place, [&](const Entry& entry) { return is_graph_orphan(entry) && entry.device == device; });
  if (found != nullptr) orphan = *found;
  return found != nullptr;
}

bool Ledger::keep_graph_orphan(std::uint64_t address) {
  const Locked locked(lock_);
  Entry* const entry = table_.find(EntryType::pointer, address);
  if (entry == nullptr || !is_graph_orphan(*entry)) return false;
  entry->references = 1;
  return true;
}

bool Ledger::drop_graph_orphan(std::uint64_t address, Entry& orphan) {
  const Locked locked(lock_);
  const Entry* const entry = table_.find(EntryType::pointer, address);
  if (entry == nullptr || !is_graph_orphan(*entry)) return false;
  table_.remove(EntryType::pointer, address, orphan);
  finish_orphan_release(orphan);
  return true;
}

void Ledger::begin_capture(std::uint64_t stream, std::uint64_t graph, std::uint64_t context) {
  const Locked locked(lock_);
  const Entry capture{.address = stream, .context = context, .owner = graph, .type = EntryType::capture};
  const bool is_known = table_.find(EntryType::capture, stream) != nullptr;
  if (table_.insert(capture) && !is_known) ++captures_;
}

std::uint64_t Ledger::end_capture(std::uint64_t stream, bool* is_known) {
  const Locked locked(lock_);
  Entry capture;
  const bool is_there = table_.remove(EntryType::capture, stream, capture);
  if (is_known != nullptr) *is_known = is_there;
  if (!is_there) return 0;
  --captures_;
  return capture.owner;
}

std::uint64_t Ledger::charged_for_graphs(unsigned device) {
  if (device >= kMaxDevices) return 0;
  const Locked locked(lock_);
  const PerDevice& of = devices_[device];
  return of.graph_charge + of.pending_graph_charge + of.orphan_charge + of.unforeseen_graph_charge;
}

}  // namespace headroom::ledger
