// Instances of graphs: each has memory of its own for all that the nodes of its graph need, from its launch
// on. No launch is watched, so each is charged when it is made, or updated to a graph: the first has what its
// graph is charged, any other is charged once more.
//
// What an instance had is leaving when it is destroyed or updated: the driver gives it back when it has ended
// (a launch that still runs keeps it), and may keep it for the next. So the graph is charged anew when
// something is instantiated from it again: the driver has both until the first has ended. Until then a graph
// of which nothing is an instance any more is charged nothing, but for nodes that none frees, which may be
// live.
//
// What it was instantiated from an instance holds until it is destroyed, whatever it is updated to. One that
// is updated to the graph that it has needs no more: on an H200 (driver 580) three updates of a running
// instance to one graph, each launched in another stream, had its memory once. (So had three instances of a
// graph, each made when the one before had been destroyed while it ran. That is not counted on: the figure
// tells it in a moment.)
//
// Of an instance's entry `link` is the graph, `charged` what it has beyond the graph's own charge, `bytes`
// what it added to that, until it is finished; of an update `pending` is the instance.
#include <utility>

#include "ledger/graph_keys.h"
#include "ledger/ledger.h"
#include "ledger/ledger_internal.h"

namespace headroom::ledger {
namespace {

// The references of an instance that is being updated to the graph that it has.
constexpr std::uint32_t kUpdatedToSameGraph = 2;

bool is_update(const Entry& entry, std::uint64_t exec) {
  return entry.type == EntryType::graph_exec && entry.extra == exec;
}

bool has_handle(const Entry& graph) { return (graph.address & kInternalNumber) == 0; }

std::uint32_t exec_count(const Entry& graph) { return graph.references - (has_handle(graph) ? 1 : 0); }

}  // namespace

// What the instance is now: what it was instantiated from only if it was never updated.
Entry* Ledger::find_exec_of(const Entry& graph, std::uint64_t exec, unsigned device) {
  if (exec_count(graph) == 0) return nullptr;
  bool was_updated = false;
  table_.for_each([&](const Entry& one) { was_updated = was_updated || is_update(one, exec); });
  std::size_t place = 0;
  return table_.find_from(place, [&](const Entry& one) {
    const bool is_now = was_updated ? one.extra == exec : one.address == key_on_device(exec, device);
    return one.type == EntryType::graph_exec && one.link == graph.address && is_now;
  });
}

bool Ledger::begin_exec(std::uint64_t number, std::uint64_t graph, Entry& refused) {
  bool fits = true;
  {
    const Locked locked(*this);
    for (unsigned device = 0; device < kMaxDevices && fits; ++device) {
      Entry* const whole = table_.find(EntryType::graph, key_on_device(graph, device));
      if (whole == nullptr) continue;
      if (Entry* const own = find_exec_of(*whole, number, device)) {
        own->references = kUpdatedToSameGraph;
        continue;
      }
      const std::uint64_t needed = round_up_to_step(whole->extra, graph_step_.load());
      const bool may_be_live = whole->link != 0 && whole->bytes > 0;
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
      Entry begun;
      begun.type = EntryType::graph_exec;
      begun.address = kInProgress | key_on_device(number, device);
      begun.link = whole->address;
      begun.charged = is_first ? 0 : more;
      begun.bytes = is_first ? more : 0;
      begun.device = whole->device;
      begun.kind = DeviceMemoryKind::graph;
      table_.insert(begun);
      has_execs_ = true;
    }
  }
  if (!fits) cancel_exec(number);
  return fits;
}

void Ledger::cancel_exec(std::uint64_t number) {
  if (!has_execs_.load(std::memory_order_relaxed)) return;
  const Locked locked(*this);
  clear_same_graph_marks(number);
  for (unsigned device = 0; device < kMaxDevices; ++device) {
    Entry begun;
    if (!table_.remove(EntryType::graph_exec, kInProgress | key_on_device(number, device), begun)) continue;
    std::uint64_t back = begun.charged;
    if (Entry* const whole = table_.find(EntryType::graph, begun.link)) {
      --whole->references;  // not its last
      back += smaller(begun.bytes, whole->charged);
      whole->charged -= smaller(begun.bytes, whole->charged);
    }
    devices_[device].graph_charge -= back;
    account_.discharge(device, back);
  }
}

void Ledger::finish_exec(std::uint64_t number, std::uint64_t exec, bool is_update) {
  if (!has_execs_.load(std::memory_order_relaxed)) return;
  const Locked locked(*this);
  clear_same_graph_marks(exec);
  for (unsigned device = 0; device < kMaxDevices; ++device) {
    Entry instance;
    if (!table_.remove(EntryType::graph_exec, kInProgress | key_on_device(number, device), instance))
      continue;
    if (instance.charged + instance.bytes > 0) account_.note_peaks(device);
    if (Entry* const whole = table_.find(EntryType::graph, instance.link)) whole->link = exec;
    instance.address = is_update ? kInternalNumber | ++last_physical_ : key_on_device(exec, device);
    instance.extra = is_update ? exec : 0;
    instance.bytes = 0;
    table_.insert(instance);
    has_updates_ = has_updates_ || is_update;
  }
}

// What is to be updated to a graph that it has already.
void Ledger::clear_same_graph_marks(std::uint64_t exec) {
  table_.for_each([&](Entry& one) {
    if (one.type == EntryType::graph_exec && one.references == kUpdatedToSameGraph &&
        (one.extra == exec || one.address == key_on_device(exec, one.device)))
      one.references = 1;
  });
}

// What it had of a graph is leaving; what that is charged itself is for who is left, unless another that was
// made when the graph needed less counts on it, too.
bool Ledger::drop_exec(Entry instance, Entry& freed) {
  PerDevice& of = devices_[instance.device];
  Entry* const whole = table_.find(EntryType::graph, instance.link);
  if (whole != nullptr && instance.charged == 0 && exec_count(*whole) > 1) {
    Entry* most = nullptr;
    bool has_another = false;
    table_.for_each([&](Entry& one) {
      if (one.type != EntryType::graph_exec || one.link != whole->address) return;
      has_another = has_another || one.charged == 0;
      if (one.charged > (most != nullptr ? most->charged : 0)) most = &one;
    });
    if (most != nullptr && !has_another) std::swap(instance.charged, most->charged);
  }
  of.graph_charge -= instance.charged;
  of.pending_graph_charge += instance.charged;
  if (whole != nullptr && exec_count(*whole) == 1 && has_handle(*whole) && instance.charged == 0 &&
      whole->bytes == 0) {
    of.graph_charge -= whole->charged;
    of.pending_graph_charge += whole->charged;
    whole->charged = 0;
  }
  return drop_graph_reference(instance.link, freed);
}

bool Ledger::drop_past_update(std::uint64_t exec, Entry& freed) {
  if (!has_updates_.load(std::memory_order_relaxed)) return false;
  const Locked locked(*this);
  for (;;) {
    std::size_t place = 0;  // what goes with a graph may move the others
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
  const Locked locked(*this);
  for (; device < kMaxDevices; ++device) {
    const std::uint64_t number = key_on_device(handle, device);
    Entry instance;
    if (type == EntryType::graph_exec) {
      if (table_.remove(EntryType::graph_exec, number, instance) && drop_exec(instance, freed)) return true;
      continue;
    }
    if (drop_graph_reference(number, freed)) return true;
    if (Entry* const held = table_.find(EntryType::graph, number)) release_graph_handle(*held);
  }
  return false;
}

// An instance holds it, and the driver may give the handle to another graph.
void Ledger::release_graph_handle(Entry& graph) {
  Entry held = graph;
  Entry gone;
  drop_free_nodes(held.address);
  table_.remove(EntryType::graph, held.address, gone);
  const std::uint64_t before = held.address;
  held.link = key_on_device(before, held.device);
  held.address = kInternalNumber | ++last_physical_;
  table_.insert(held);
  std::size_t place = 0;
  for (Entry* part = nullptr; (part = table_.find_from(place, [&](const Entry& one) {
                                return (is_node(one) || one.type == EntryType::graph_exec) &&
                                       one.link == before;
                              })) != nullptr;)
    part->link = held.address;
}

// What was instantiated from it runs by itself, with what it was charged for that: for what it becomes a part
// of it is charged anew, when that is instantiated.
void Ledger::detach_execs(Entry& moved) {
  if (exec_count(moved) == 0) return;
  Entry kept = moved;
  kept.references = exec_count(moved);
  kept.link = moved.address;
  kept.address = kInternalNumber | ++last_physical_;
  table_.insert(kept);
  table_.for_each([&](Entry& one) {
    if (one.type == EntryType::graph_exec && one.link == moved.address) one.link = kept.address;
  });
  moved.references = 1;
  moved.charged = 0;
}

// True: that was the last, and the graph is gone.
bool Ledger::drop_graph_reference(std::uint64_t graph, Entry& freed) {
  Entry* const entry = table_.find(EntryType::graph, graph);
  if (entry == nullptr || --entry->references > 0) return false;
  table_.remove(EntryType::graph, graph, freed);
  freed.address =
      (graph & kInternalNumber) != 0 ? freed.link : key_on_device(graph, freed.device);  // the handle
  drop_free_nodes(graph);
  const bool may_have_run = freed.link != 0;
  std::uint64_t left_there = 0;  // of what the graph is charged
  std::size_t place = 0;
  while (Entry* const node =
             table_.find_from(place, [&](const Entry& one) { return is_node(one) && one.link == graph; })) {
    if (!may_have_run) {
      Entry gone;
      table_.remove_at(place, gone);
      count_out(gone);
      continue;
    }
    node->link = node->extra = 0;
    node->references = 0;
    node->charged = node->bytes;
    left_there += node->bytes;
    has_graph_orphans_ = true;
  }
  // Of a child that ran before it was moved more may be live than the whole is charged.
  if (left_there > freed.charged) account_.force_charge(freed.device, left_there - freed.charged);
  const std::uint64_t leaving = freed.charged - smaller(left_there, freed.charged);
  if (freed.device < kMaxDevices) {
    PerDevice& of = devices_[freed.device];
    of.graph_charge -= freed.charged;
    of.orphan_charge += left_there;
    if (may_have_run) of.pending_graph_charge += leaving;
  }
  // What never ran has no memory.
  if (!may_have_run) account_.discharge(freed.device, leaving);
  return true;
}

}  // namespace headroom::ledger
