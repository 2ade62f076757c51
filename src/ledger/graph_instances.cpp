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

#include "ledger/graph_numbers.h"
#include "ledger/ledger.h"
#include "ledger/ledger_lock.h"

namespace headroom::ledger {
namespace {

// The references of an instance that is being updated to the graph that it has.
constexpr std::uint32_t kKept = 2;

bool is_update(const Entry& entry, std::uint64_t exec) {
  return entry.space == Space::graph_exec && entry.pending == exec;
}

bool has_handle(const Entry& graph) { return (graph.address & kNumbered) == 0; }

std::uint32_t holders_of(const Entry& graph) { return graph.references - (has_handle(graph) ? 1 : 0); }

}  // namespace

// What the instance is now: what it was instantiated from only if it was never updated.
Entry* Ledger::find_instance_of(const Entry& graph, std::uint64_t exec, unsigned device) {
  if (holders_of(graph) == 0) return nullptr;
  bool was_updated = false;
  table_.for_each([&](const Entry& one) { was_updated = was_updated || is_update(one, exec); });
  std::size_t place = 0;
  return table_.find_from(place, [&](const Entry& one) {
    const bool is_now = was_updated ? one.pending == exec : one.address == on_device(exec, device);
    return one.space == Space::graph_exec && one.link == graph.address && is_now;
  });
}

bool Ledger::begin_instance(std::uint64_t number, std::uint64_t graph, Entry& refused) {
  bool fits = true;
  {
    const Locked locked(*this);
    for (unsigned device = 0; device < kMostDevices && fits; ++device) {
      Entry* const whole = table_.find(Space::graph, on_device(graph, device));
      if (whole == nullptr) continue;
      if (Entry* const own = find_instance_of(*whole, number, device)) {
        own->references = kKept;
        continue;
      }
      const std::uint64_t needed = in_steps(whole->pending, graph_step_.load());
      const bool may_be_live = whole->link != 0 && whole->bytes > 0;
      const bool is_first = holders_of(*whole) == 0 && !may_be_live;
      const std::uint64_t more = is_first ? needed - smaller(whole->charged, needed) : needed;
      fits = more == 0 || account_.reserve(device, more);
      if (!fits) {
        refused = *whole;
        refused.charged = more;
        break;
      }
      ++whole->references;
      if (is_first) whole->charged += more;
      devices_[device].graphs += more;
      Entry begun;
      begun.space = Space::graph_exec;
      begun.address = kBegun | on_device(number, device);
      begun.link = whole->address;
      begun.charged = is_first ? 0 : more;
      begun.bytes = is_first ? more : 0;
      begun.device = whole->device;
      begun.kind = DeviceMemoryKind::graph;
      table_.insert(begun);
      has_instances_ = true;
    }
  }
  if (!fits) cancel_instance(number);
  return fits;
}

void Ledger::cancel_instance(std::uint64_t number) {
  if (!has_instances_.load(std::memory_order_relaxed)) return;
  const Locked locked(*this);
  give_up_kept(number);
  for (unsigned device = 0; device < kMostDevices; ++device) {
    Entry begun;
    if (!table_.take(Space::graph_exec, kBegun | on_device(number, device), begun)) continue;
    std::uint64_t back = begun.charged;
    if (Entry* const whole = table_.find(Space::graph, begun.link)) {
      --whole->references;  // not its last
      back += smaller(begun.bytes, whole->charged);
      whole->charged -= smaller(begun.bytes, whole->charged);
    }
    devices_[device].graphs -= back;
    account_.discharge(device, back);
  }
}

void Ledger::finish_instance(std::uint64_t number, std::uint64_t exec, bool is_update) {
  if (!has_instances_.load(std::memory_order_relaxed)) return;
  const Locked locked(*this);
  give_up_kept(exec);
  for (unsigned device = 0; device < kMostDevices; ++device) {
    Entry instance;
    if (!table_.take(Space::graph_exec, kBegun | on_device(number, device), instance)) continue;
    if (instance.charged + instance.bytes > 0) account_.note_peaks(device);
    if (Entry* const whole = table_.find(Space::graph, instance.link)) whole->link = exec;
    instance.address = is_update ? kNumbered | ++last_physical_ : on_device(exec, device);
    instance.pending = is_update ? exec : 0;
    instance.bytes = 0;
    table_.insert(instance);
    has_updates_ = has_updates_ || is_update;
  }
}

// What is to be updated to a graph that it has already.
void Ledger::give_up_kept(std::uint64_t exec) {
  table_.for_each([&](Entry& one) {
    if (one.space == Space::graph_exec && one.references == kKept &&
        (one.pending == exec || one.address == on_device(exec, one.device)))
      one.references = 1;
  });
}

// What it had of a graph is leaving; what that is charged itself is for who is left, unless another that was
// made when the graph needed less counts on it, too.
bool Ledger::drop_instance(Entry instance, Entry& freed) {
  PerDevice& of = devices_[instance.device];
  Entry* const whole = table_.find(Space::graph, instance.link);
  if (whole != nullptr && instance.charged == 0 && holders_of(*whole) > 1) {
    Entry* most = nullptr;
    bool has_another = false;
    table_.for_each([&](Entry& one) {
      if (one.space != Space::graph_exec || one.link != whole->address) return;
      has_another = has_another || one.charged == 0;
      if (one.charged > (most != nullptr ? most->charged : 0)) most = &one;
    });
    if (most != nullptr && !has_another) std::swap(instance.charged, most->charged);
  }
  of.graphs -= instance.charged;
  of.leaving_graphs += instance.charged;
  if (whole != nullptr && holders_of(*whole) == 1 && has_handle(*whole) && instance.charged == 0 &&
      whole->bytes == 0) {
    of.graphs -= whole->charged;
    of.leaving_graphs += whole->charged;
    whole->charged = 0;
  }
  return drop_graph_reference(instance.link, freed);
}

bool Ledger::drop_update(std::uint64_t exec, Entry& freed) {
  if (!has_updates_.load(std::memory_order_relaxed)) return false;
  const Locked locked(*this);
  for (;;) {
    std::size_t place = 0;  // what goes with a graph may move the others
    const auto is_past = [&](const Entry& one) { return is_update(one, exec) && one.references != kKept; };
    if (table_.find_from(place, is_past) == nullptr) return false;
    Entry update;
    table_.take_at(place, update);
    if (drop_instance(update, freed)) return true;
  }
}

bool Ledger::destroy_graph(Space space, std::uint64_t handle, unsigned& device, Entry& freed) {
  const Locked locked(*this);
  for (; device < kMostDevices; ++device) {
    const std::uint64_t number = on_device(handle, device);
    Entry instance;
    if (space == Space::graph_exec) {
      if (table_.take(Space::graph_exec, number, instance) && drop_instance(instance, freed)) return true;
      continue;
    }
    if (drop_graph_reference(number, freed)) return true;
    if (Entry* const held = table_.find(Space::graph, number)) give_up_handle(*held);
  }
  return false;
}

// An instance holds it, and the driver may give the handle to another graph.
void Ledger::give_up_handle(Entry& graph) {
  Entry held = graph;
  Entry gone;
  drop_nodes_that_free(held.address);
  table_.take(Space::graph, held.address, gone);
  const std::uint64_t before = held.address;
  held.link = on_device(before, held.device);
  held.address = kNumbered | ++last_physical_;
  table_.insert(held);
  std::size_t place = 0;
  for (Entry* part = nullptr; (part = table_.find_from(place, [&](const Entry& one) {
                                return (is_node(one) || one.space == Space::graph_exec) && one.link == before;
                              })) != nullptr;)
    part->link = held.address;
}

// What was instantiated from it runs by itself, with what it was charged for that: for what it becomes a part
// of it is charged anew, when that is instantiated.
void Ledger::keep_for_instances(Entry& moved) {
  if (holders_of(moved) == 0) return;
  Entry kept = moved;
  kept.references = holders_of(moved);
  kept.link = moved.address;
  kept.address = kNumbered | ++last_physical_;
  table_.insert(kept);
  table_.for_each([&](Entry& one) {
    if (one.space == Space::graph_exec && one.link == moved.address) one.link = kept.address;
  });
  moved.references = 1;
  moved.charged = 0;
}

// True: that was the last, and the graph is gone.
bool Ledger::drop_graph_reference(std::uint64_t graph, Entry& freed) {
  Entry* const entry = table_.find(Space::graph, graph);
  if (entry == nullptr || --entry->references > 0) return false;
  table_.take(Space::graph, graph, freed);
  freed.address = (graph & kNumbered) != 0 ? freed.link : on_device(graph, freed.device);  // the handle
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
    node->link = node->pending = 0;
    node->references = 0;
    node->charged = node->bytes;
    left_there += node->bytes;
    graphs_left_some_ = true;
  }
  // Of a child that ran before it was moved more may be live than the whole is charged.
  if (left_there > freed.charged) account_.charge_anyway(freed.device, left_there - freed.charged);
  const std::uint64_t leaving = freed.charged - smaller(left_there, freed.charged);
  if (freed.device < kMostDevices) {
    PerDevice& of = devices_[freed.device];
    of.graphs -= freed.charged;
    of.left_by_graphs += left_there;
    if (may_have_run) of.leaving_graphs += leaving;
  }
  // What never ran has no memory.
  if (!may_have_run) account_.discharge(freed.device, leaving);
  return true;
}

}  // namespace headroom::ledger
