// Graph execs: each has its own memory for the nodes of its graph, from its first launch on. Launches are not
// hooked, so an exec is charged when it is instantiated or updated to a graph. The first exec of a graph uses
// the graph's own charge; each further one is charged in addition.
//
// When an exec is destroyed or updated, its charge becomes pending. A launch that still runs keeps the
// memory, and the driver may keep it for the next exec. If the graph is then instantiated again, it is
// charged anew, because the driver holds the memory of both until the first has ended. A graph without execs
// is charged nothing meanwhile, except if a node's memory is freed by no node, and so may still be live.
//
// An exec pins its source graph until it is destroyed, even after an update. An update to the graph that an
// exec already has costs nothing. On an H200 (driver 580), a running exec was updated three times to one
// graph and launched in another stream each time. It used its memory once. (Three execs of a graph, each made
// after its predecessor was destroyed while running, also used it once. The ledger does not rely on that: the
// driver's figure corrects the charge soon.)
//
// `charged` of an exec is what it uses beyond the graph's own charge.
#include <utility>

#include "ledger/ledger.h"
#include "ledger/ledger_internal.h"

namespace headroom::ledger {
namespace {

// Marks, in `references`, an exec that is being updated to the graph that it already has.
constexpr std::uint32_t kUpdatedToSameGraph = 2;

bool is_update(const Entry& entry, std::uint64_t exec) {
  return entry.type == EntryType::graph_exec && entry.of.graph_exec.updated_exec == exec;
}

bool has_handle(const Entry& graph) { return (graph.address & kInternalNumber) == 0; }

std::uint32_t exec_count(const Entry& graph) { return graph.references - (has_handle(graph) ? 1 : 0); }

}  // namespace

// Finds the entry of the exec's current graph, if that is `graph`. The graph that the exec was instantiated
// from is the current one only if the exec was never updated.
Entry* Ledger::find_exec_of(const Entry& graph, std::uint64_t exec, unsigned device) {
  if (exec_count(graph) == 0) return nullptr;
  bool was_updated = false;
  table_.for_each([&](const Entry& one) { was_updated = was_updated || is_update(one, exec); });
  std::size_t place = 0;
  return table_.find_from(place, [&](const Entry& one) {
    const bool is_now =
        was_updated ? one.of.graph_exec.updated_exec == exec : one.address == key_on_device(exec, device);
    return one.type == EntryType::graph_exec && one.owner == graph.address && is_now;
  });
}

bool Ledger::begin_exec(std::uint64_t number, std::uint64_t graph, Entry& refused) {
  bool fits = true;
  const Locked locked(lock_);
  for (unsigned device = 0; device < kMaxDevices && fits; ++device) {
    Entry* const whole = table_.find(EntryType::graph, key_on_device(graph, device));
    if (whole == nullptr) continue;
    if (Entry* const own = find_exec_of(*whole, number, device)) {
      own->references = kUpdatedToSameGraph;
      continue;
    }
    const std::uint64_t needed = round_up_to_step(whole->of.graph.block_bytes, graph_step_.load());
    const bool may_be_live = may_have_run(*whole) && whole->bytes > 0;
    const bool is_first = exec_count(*whole) == 0 && !may_be_live;
    const std::uint64_t more = is_first ? needed - smaller(whole->charged, needed) : needed;
    fits = more == 0 || account_.reserve(device, more);
    if (!fits) {
      refused = *whole;
      refused.charged = more;
      break;
    }
    ++whole->references;
    if (is_first) whole->charged += more;
    devices_[device].graph_charge += more;
    table_.insert({.address = kInProgress | key_on_device(number, device),
                   .owner = whole->address,
                   .charged = is_first ? 0 : more,
                   .of = {.graph_exec = {.updated_exec = 0, .added_bytes = is_first ? more : 0}},
                   .device = whole->device,
                   .type = EntryType::graph_exec,
                   .kind = DeviceMemoryKind::graph});
    has_execs_ = true;
  }
  if (!fits) cancel_exec(number);
  return fits;
}

void Ledger::cancel_exec(std::uint64_t number) {
  if (!has_execs_.load(std::memory_order_relaxed)) return;
  const Locked locked(lock_);
  clear_same_graph_marks(number);
  for (unsigned device = 0; device < kMaxDevices; ++device) {
    Entry begun;
    if (!table_.remove(EntryType::graph_exec, kInProgress | key_on_device(number, device), begun)) continue;
    std::uint64_t back = begun.charged;
    if (Entry* const whole = table_.find(EntryType::graph, begun.owner)) {
      --whole->references;  // never the last one
      const std::uint64_t added = smaller(begun.of.graph_exec.added_bytes, whole->charged);
      back += added;
      whole->charged -= added;
    }
    devices_[device].graph_charge -= back;
    account_.discharge(device, back);
  }
}

void Ledger::finish_exec(std::uint64_t number, std::uint64_t exec, bool is_update) {
  if (!has_execs_.load(std::memory_order_relaxed)) return;
  const Locked locked(lock_);
  clear_same_graph_marks(exec);
  for (unsigned device = 0; device < kMaxDevices; ++device) {
    Entry entry;
    if (!table_.remove(EntryType::graph_exec, kInProgress | key_on_device(number, device), entry)) continue;
    if (entry.charged + entry.of.graph_exec.added_bytes > 0) account_.note_peaks(device);
    if (Entry* const whole = table_.find(EntryType::graph, entry.owner)) whole->of.graph.last_exec = exec;
    entry.address = is_update ? kInternalNumber | ++last_physical_ : key_on_device(exec, device);
    entry.of.graph_exec = {is_update ? exec : 0, 0};
    table_.insert(entry);
    has_updates_ = has_updates_ || is_update;
  }
}

// Ends an update of the exec to the graph that it already has.
void Ledger::clear_same_graph_marks(std::uint64_t exec) {
  table_.for_each([&](Entry& one) {
    if (one.type == EntryType::graph_exec && one.references == kUpdatedToSameGraph &&
        (one.of.graph_exec.updated_exec == exec || one.address == key_on_device(exec, one.device)))
      one.references = 1;
  });
}

// Ends an exec's use of a graph; its charge becomes pending. If it used the graph's own charge, the exec with
// the largest charge takes that over. It does not if another exec, made when the graph needed less, uses that
// charge, too.
bool Ledger::drop_exec(Entry exec, Entry& freed) {
  PerDevice& of = devices_[exec.device];
  Entry* const whole = table_.find(EntryType::graph, exec.owner);
  if (whole != nullptr && exec.charged == 0 && exec_count(*whole) > 1) {
    Entry* most = nullptr;
    bool has_another = false;
    table_.for_each([&](Entry& one) {
      if (one.type != EntryType::graph_exec || one.owner != whole->address) return;
      has_another = has_another || one.charged == 0;
      if (one.charged > (most != nullptr ? most->charged : 0)) most = &one;
    });
    if (most != nullptr && !has_another) std::swap(exec.charged, most->charged);
  }
  of.graph_charge -= exec.charged;
  of.pending_graph_charge += exec.charged;
  if (whole != nullptr && exec_count(*whole) == 1 && has_handle(*whole) && exec.charged == 0 &&
      whole->bytes == 0) {
    of.graph_charge -= whole->charged;
    of.pending_graph_charge += whole->charged;
    whole->charged = 0;
  }
  return drop_graph_reference(exec.owner, freed);
}

bool Ledger::drop_past_update(std::uint64_t exec, Entry& freed) {
  if (!has_updates_.load(std::memory_order_relaxed)) return false;
  const Locked locked(lock_);
  for (;;) {
    std::size_t place = 0;  // removing a graph may move other entries
    const auto is_past = [&](const Entry& one) {
      return is_update(one, exec) && one.references != kUpdatedToSameGraph;
    };
    if (table_.find_from(place, is_past) == nullptr) return false;
    Entry update;
    table_.remove_at(place, update);
    if (drop_exec(update, freed)) return true;
  }
}

bool Ledger::destroy_graph(EntryType type, std::uint64_t handle, unsigned& device, Entry& freed) {
  const Locked locked(lock_);
  for (; device < kMaxDevices; ++device) {
    const std::uint64_t number = key_on_device(handle, device);
    Entry exec;
    if (type == EntryType::graph_exec) {
      if (table_.remove(EntryType::graph_exec, number, exec) && drop_exec(exec, freed)) return true;
      continue;
    }
    if (drop_graph_reference(number, freed)) return true;
    if (Entry* const held = table_.find(EntryType::graph, number)) release_graph_handle(*held);
  }
  return false;
}

// The graph was destroyed, but an exec pins its memory. It gets a number, because the driver may reuse its
// handle.
void Ledger::release_graph_handle(Entry& graph) {
  Entry held = graph;
  drop_free_nodes(held.address);
  table_.remove(EntryType::graph, held.address);
  const std::uint64_t before = held.address;
  held.of.graph.former_key = key_on_device(before, held.device);
  held.address = kInternalNumber | ++last_physical_;
  table_.insert(held);
  table_.for_each([&](Entry& one) {
    if ((is_node(one) || one.type == EntryType::graph_exec) && one.owner == before) one.owner = held.address;
  });
}

// The graph becomes part of another graph. Its execs continue on their own: they keep its charge, under a
// number. The parent is charged for these nodes when it is instantiated.
void Ledger::detach_execs(Entry& moved) {
  if (exec_count(moved) == 0) return;
  Entry kept = moved;
  kept.references = exec_count(moved);
  kept.of.graph.former_key = moved.address;
  kept.address = kInternalNumber | ++last_physical_;
  table_.insert(kept);
  table_.for_each([&](Entry& one) {
    if (one.type == EntryType::graph_exec && one.owner == moved.address) one.owner = kept.address;
  });
  moved.references = 1;
  moved.charged = 0;
}

// Returns true if that was the last reference, and the graph is gone.
bool Ledger::drop_graph_reference(std::uint64_t graph, Entry& freed) {
  Entry* const entry = table_.find(EntryType::graph, graph);
  if (entry == nullptr || --entry->references > 0) return false;
  table_.remove(EntryType::graph, graph, freed);
  freed.address = (graph & kInternalNumber) != 0 ? freed.of.graph.former_key
                                                 : key_on_device(graph, freed.device);  // the handle
  drop_free_nodes(graph);
  const bool has_run = may_have_run(freed);
  std::uint64_t orphan_bytes = 0;
  std::size_t place = 0;
  while (Entry* const node =
             table_.find_from(place, [&](const Entry& one) { return is_node(one) && one.owner == graph; })) {
    if (!has_run) {
      Entry gone;
      table_.remove_at(place, gone);
      count_out(gone);
      continue;
    }
    node->owner = 0;
    node->of = {};
    node->references = 0;
    node->charged = node->bytes;
    orphan_bytes += node->bytes;
    has_graph_orphans_ = true;
  }
  // If a child graph ran before it was moved here, its orphans may exceed this graph's charge.
  if (orphan_bytes > freed.charged) account_.force_charge(freed.device, orphan_bytes - freed.charged);
  const std::uint64_t pending = freed.charged - smaller(orphan_bytes, freed.charged);
  if (freed.device < kMaxDevices) {
    PerDevice& of = devices_[freed.device];
    of.graph_charge -= freed.charged;
    of.orphan_charge += orphan_bytes;
    if (has_run) of.pending_graph_charge += pending;
  }
  // A graph that never ran has no memory.
  if (!has_run) account_.discharge(freed.device, pending);
  return true;
}

}  // namespace headroom::ledger
