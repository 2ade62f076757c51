// The ledger of GPU memory with any sequence of calls, compared with a slow and simple model: both grant and
// charge the same, and no limit is exceeded. Each call takes a few bytes of the input.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <numeric>
#include <vector>

#include "ledger/ledger.h"
#include "ledger_model.h"

namespace {

using headroom::DeviceMemoryKind;
using headroom::ledger::Entry;
using headroom::ledger::EntryType;
using headroom::ledger::Ledger;
using headroom::ledger::Limits;
using headroom::ledger::Model;

constexpr std::uint64_t kLimit = 4000;

void require(bool holds) {
  if (!holds) std::abort();
}

class Calls {
 public:
  Calls(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {
    Limits limits;
    limits.bytes[0] = kLimit;
    require(ledger_.account().open_private(limits));
    model_.pool_step = model_.graph_step = size % 2 == 0 ? 0 : 32;
    ledger_.assume_pool_step(model_.graph_step);
  }

  void make_all() {
    using Call = void (Calls::*)();
    constexpr Call kCalls[] = {
        &Calls::allocate,         &Calls::allocate,          &Calls::release,       &Calls::fail_to_release,
        &Calls::create,           &Calls::release_handle,    &Calls::map,           &Calls::unmap,
        &Calls::allocate_in_pool, &Calls::settle_or_destroy, &Calls::add_node,      &Calls::free_node,
        &Calls::change_graph,     &Calls::drop_context,      &Calls::export_handle,
    };
    while (at_ != end_) {
      (this->*kCalls[next() % std::size(kCalls)])();
      require(ledger_.account().charged(0) == model_.charged());
      require(ledger_.account().charged(0) - model_.beyond <= kLimit);
      require(ledger_.charged_for_graphs(0) == model_.charged_for_graphs() + model_.beyond);
    }
  }

 private:
  std::uint8_t next() { return at_ == end_ ? 0 : *at_++; }
  std::uint64_t size() { return next() * 8u; }
  std::uint64_t address() { return 0x1000 + next() % 32 * 0x100u; }
  bool fits(std::uint64_t bytes) const { return model_.charged() + bytes <= kLimit; }
  bool is_taken(std::uint64_t where) const {
    return model_.blocks.count(where) != 0 || model_.nodes.count(where) != 0 || model_.left.count(where) != 0;
  }

  void allocate() {
    const std::uint64_t bytes = size(), where = address();
    if (is_taken(where)) return;
    const bool granted = ledger_.reserve(0, DeviceMemoryKind::device, bytes);
    require(granted == fits(bytes));
    if (!granted) return;
    if (next() % 8 == 0) return ledger_.cancel(0, DeviceMemoryKind::device, bytes);
    Entry entry;
    entry.address = where;
    entry.bytes = bytes;
    entry.context = 1 + next() % 2;
    ledger_.commit(entry);
    model_.blocks[where] = {bytes, entry.context};
  }
  void release() { release_pointer(false); }
  void fail_to_release() { release_pointer(true); }
  void release_pointer(bool fails) {
    const std::uint64_t where = address();
    Entry entry;
    // The graph keeps memory of its nodes as long as it exists.
    const bool known = ledger_.begin_release(EntryType::pointer, where, entry);
    const auto left = model_.left.find(where);
    require(known == (model_.blocks.count(where) != 0 || left != model_.left.end()));
    if (!known) return;
    require(entry.bytes == (left != model_.left.end() ? left->second : model_.blocks.at(where).bytes));
    if (fails) return ledger_.undo_release(entry);
    if (left == model_.left.end()) {
      ledger_.finish_release(entry);
      return model_.free_block(where);
    }
    ledger_.finish_orphan_release(entry);
    model_.leaving += left->second;
    model_.left.erase(left);
  }

  void create() {
    const std::uint64_t bytes = size(), handle = 1 + next() % 8;
    if (model_.handles.count(handle) != 0) return;
    const bool granted = ledger_.reserve(0, DeviceMemoryKind::physical, bytes);
    require(granted == fits(bytes));
    if (!granted) return;
    Entry freed;
    ledger_.commit_physical(handle, 0, DeviceMemoryKind::physical, bytes, freed);
    require(freed.address == 0);
    model_.physical[++model_.next] = {bytes, 1};
    model_.handles[handle] = {1, model_.next};
  }
  void release_handle() {
    const std::uint64_t handle = 1 + next() % 8;
    const bool fails = next() % 4 == 0;
    const auto known = model_.handles.find(handle);
    const auto release = ledger_.begin_release_handle(handle);
    require((release.handle != 0) == (known != model_.handles.end()));
    if (release.handle == 0) return;
    if (fails) return;
    const Entry freed = ledger_.finish_release_handle(release);
    if (--known->second.first > 0) return require(freed.address == 0);
    const int number = known->second.second;
    require((freed.address != 0) == (model_.physical.at(number).references == 1));
    model_.handles.erase(known);
    model_.drop_physical(number);
  }
  void map() {
    const std::uint64_t handle = 1 + next() % 8, where = address();
    if (model_.handles.count(handle) == 0 || model_.mappings.count(where) != 0) return;
    const std::uint64_t physical = ledger_.retain_physical(handle);
    Entry freed;
    if (next() % 8 == 0) {  // the driver call failed
      return require(ledger_.release_physical(physical).address == 0);
    }
    ledger_.map(where, 0x100, physical, freed);
    require(freed.address == 0);
    model_.mappings[where] = model_.handles.at(handle).second;
    ++model_.physical.at(model_.mappings.at(where)).references;
  }
  void unmap() {
    const std::uint64_t where = address(), bytes = 0x100u * (1 + next() % 4);
    if (next() % 3 == 0 && model_.mappings.count(where) != 0) {
      // Retains the handle by its mapped address, and then releases it.
      const std::uint64_t handle = 0x100 + next();
      if (model_.handles.count(handle) == 0) {
        ledger_.retain_handle(handle, ledger_.retain_mapped_physical(where));
        model_.handles[handle] = {1, model_.mappings.at(where)};
        ++model_.physical.at(model_.mappings.at(where)).references;
        ledger_.finish_release_handle(ledger_.begin_release_handle(handle));
        model_.handles.erase(handle);
        model_.drop_physical(model_.mappings.at(where));
      }
    }
    Entry mapping, freed;
    while (ledger_.unmap_one(where, bytes, mapping, freed)) {
      require(mapping.address - where < bytes && model_.mappings.count(mapping.address) != 0);
      model_.drop_physical(model_.mappings.at(mapping.address));
      model_.mappings.erase(mapping.address);
    }
    for (const auto& [at, number] : model_.mappings) require(at - where >= bytes);
  }

  void export_handle() {
    const std::uint64_t handle = 1 + next() % 8;
    if (model_.handles.count(handle) == 0) return;
    ledger_.export_physical(ledger_.retain_physical(handle));
    ++model_.physical.at(model_.handles.at(handle).second).references;
  }

  void allocate_in_pool() {
    const std::uint64_t pool = 1 + next() % 2, bytes = size(), where = address();
    if (is_taken(where)) return;
    Model::Pool& of = model_.pools[pool];
    const std::uint64_t spare = of.charged - of.used;
    std::uint64_t growth = bytes > spare ? bytes - spare : 0;
    while (growth > 0 && model_.pool_step > 0 && (of.charged + growth) % model_.pool_step != 0) ++growth;
    const bool granted = ledger_.reserve_in_pool(pool, 0, bytes);
    require(granted == (growth == 0 || fits(growth)));
    if (!granted) return;
    Entry entry;
    entry.address = where;
    entry.bytes = bytes;
    entry.kind = DeviceMemoryKind::pool;
    entry.owner = pool;
    ledger_.commit(entry);
    of.used += bytes;
    of.charged += growth;
    model_.blocks[where] = {bytes, 0, pool};
  }
  void settle_or_destroy() {
    const std::uint64_t pool = 1 + next() % 2, reserved = size();
    const auto known = model_.pools.find(pool);
    if (next() % 4 == 0) {
      ledger_.destroy_pool(pool);
      return model_.destroy_pool(pool);
    }
    if (next() % 4 == 0) {
      ledger_.finish_wait(0, ledger_.begin_wait(0));
      std::erase_if(model_.destroyed_pools, [](const auto& one) { return one.second.used == 0; });
      require(ledger_.has_pending_frees() == !model_.destroyed_pools.empty());
      return;
    }
    if (known == model_.pools.end()) return;
    Model::Pool& of = known->second;
    const std::uint64_t kept = std::max(of.used, reserved);
    const bool fits_limit = kept <= of.charged || fits(kept - of.charged);
    const auto settled = ledger_.settle_pool(pool, reserved, true);
    require(settled.fits == fits_limit && settled.is_new == (of.figure != reserved));
    if (reserved > of.figure) model_.pool_step = std::gcd(model_.pool_step, reserved - of.figure);
    of.figure = reserved;
    if (fits_limit) of.charged = kept;
  }

  void add_node() {
    const std::uint64_t graph = 0x50 + next() % 3, bytes = size(), where = address();
    if (is_taken(where)) return;
    Model::Graph& of = model_.graphs[graph];
    // The node runs after some of the free nodes, of this graph and of others.
    std::vector<std::uint64_t> before;
    for (const auto& [node, freed] : model_.frees)
      if (next() % 2 == 0) before.push_back(node);
    // The ledger reuses the smallest freed block that is large enough, as a whole.
    std::uint64_t block = 0, taken = 0;
    for (const std::uint64_t node : before) {
      const auto& [of_graph, freed] = model_.frees.at(node);
      if (of_graph != graph || freed < bytes || bytes == 0 || (taken != 0 && freed >= block)) continue;
      block = freed;
      taken = node;
    }
    if (taken == 0) block = bytes;
    const std::uint64_t blocks = of.blocks + (taken == 0 ? bytes : 0), needed = model_.in_steps(blocks);
    const std::uint64_t growth = needed > of.charged ? needed - of.charged : 0;
    require(ledger_.fits_in_graph(graph, 0, bytes, before) == fits(growth));
    const auto result = ledger_.reserve_in_graph(graph, 0, bytes, before);
    require(result.granted == (growth == 0 || fits(growth)) && result.before == of.blocks);
    if (!result.granted) return;
    require(result.after == blocks && result.charged == growth && result.spare == block - bytes);
    if (next() % 8 == 0) {
      ledger_.cancel_in_graph(graph, 0, bytes, result, before);
      // Growth steps that were observed since then are charged now.
      of.charged = std::max(of.charged, std::min(of.charged + growth, model_.in_steps(of.blocks)));
      return require(taken == 0 || ledger_.bytes_freed_by_node(graph, 0, taken) == block);
    }
    of.charged += growth;
    of.blocks = blocks;
    if (taken != 0) model_.frees.at(taken).second = 0;
    ledger_.commit_node(graph, where, 0, bytes, result.spare);
    model_.nodes[where] = {graph, bytes, block};
  }
  void free_node() {
    const std::uint64_t where = address();
    const auto known = model_.nodes.find(where);
    if (known == model_.nodes.end()) {
      require(!ledger_.free_node(0x50 + next() % 3, where));
      return;
    }
    const std::uint64_t graph = 0x50 + next() % 3;
    const std::uint64_t node = 0x900 + static_cast<std::uint64_t>(++model_.next);
    require(ledger_.free_node(graph, where, node) == (graph == known->second.graph));
    if (graph != known->second.graph) return;
    model_.frees[node] = {graph, known->second.block};
    require(ledger_.bytes_freed_by_node(graph, 0, node) == known->second.block);
    model_.nodes.erase(known);
  }
  void change_graph() {
    const std::uint64_t graph = 0x50 + next() % 3, exec = 0x70 + next() % 3;
    switch (next() % 7) {
      case 0:
        if (model_.graphs.count(graph) == 0 || model_.execs.count(exec) != 0) return;
        return instantiate(graph, exec);
      case 1:
        if (model_.graphs.count(graph) == 0) return;
        require(destroy(EntryType::graph, graph) == (model_.graphs.at(graph).users == 1));
        model_.drop_graph(graph);
        return model_.give_up_handle(graph);
      case 2:
        return drop_left();
      case 3:
        return move_graph(graph, 0x50 + next() % 3);
      case 4: {
        const std::uint64_t reserved = size(), left = model_.bytes_left();
        ledger_.settle_graph_memory(0, reserved);
        model_.leaving = std::min(model_.leaving, reserved > left ? reserved - left : 0);
        const std::uint64_t fallen = model_.graph_figure > reserved ? model_.graph_figure - reserved : 0;
        const std::uint64_t foreseen = model_.charged_for_graphs();
        model_.beyond -= std::min(model_.beyond, fallen);
        model_.beyond = std::max(model_.beyond, reserved > foreseen ? reserved - foreseen : 0);
        model_.graph_figure = reserved;
        return require(ledger_.has_pending_graph_memory(0) == (model_.leaving > 0 || model_.beyond > 0));
      }
      case 5:
        if (model_.execs.count(exec) != 0 && model_.graphs.count(graph) != 0) update(exec, graph);
        return;
      default:
        if (model_.execs.count(exec) == 0) return;
        destroy(EntryType::graph_exec, exec);
        model_.execs.erase(exec);
        model_.drop_instances(exec, false);
        drop_updates(exec);
    }
  }
  void instantiate(std::uint64_t graph, std::uint64_t exec) {
    constexpr std::uint64_t kNumber = 0x7f;
    Model::Instance instance{exec, graph, 0, false};
    if (!begin_exec(kNumber, instance, false)) return;
    ledger_.finish_instantiate(kNumber, exec);
    model_.instances.push_back(instance);
    model_.execs[exec] = graph;
  }
  void update(std::uint64_t exec, std::uint64_t graph) {
    Model::Instance update{exec, graph, 0, true};
    const auto is_update = [&](const auto& one) { return one.exec == exec && one.is_update; };
    const bool was_updated = std::any_of(model_.instances.begin(), model_.instances.end(), is_update);
    const auto is_now = [&](const auto& one) {
      return one.graph == graph && one.exec == exec && one.is_update == was_updated;
    };
    const auto own = std::find_if(model_.instances.begin(), model_.instances.end(), is_now);
    const bool has_it = own != model_.instances.end();
    if (!begin_exec(exec, update, has_it)) return;
    // A dropped update may belong to the same graph. Its charge then passes to this update.
    if (!has_it) {
      update.exec = 0;
      model_.instances.push_back(update);
    } else if (own->is_update) {
      own->exec = 0;
    }
    drop_updates(exec);
    ledger_.finish_update(exec);
    for (Model::Instance& one : model_.instances)
      if (one.exec == 0) one.exec = exec;
  }
  // The first exec uses the graph's own charge. A process that owns the graph also owns its memory.
  bool begin_exec(std::uint64_t number, Model::Instance& instance, bool has_it) {
    Model::Graph& of = model_.graphs.at(instance.graph);
    const bool may_be_live = of.may_run && model_.bytes_of_nodes(instance.graph) > 0;
    const bool is_first = model_.holders_of(instance.graph) == 0 && !may_be_live;
    const std::uint64_t needed = model_.in_steps(of.blocks);
    const std::uint64_t more = has_it ? 0 : is_first ? needed - std::min(of.charged, needed) : needed;
    Entry refused;
    const bool granted = ledger_.begin_exec(number, instance.graph, refused);
    require(granted == (more == 0 || fits(more)));
    if (!granted) {
      require(refused.charged == more);
      return false;
    }
    if (next() % 4 == 0) {
      ledger_.cancel_exec(number);
      return false;
    }
    if (has_it) return true;
    of.charged += is_first ? more : 0;
    instance.charged = is_first ? 0 : more;
    of.may_run = true;
    ++of.users;
    return true;
  }
  void drop_updates(std::uint64_t exec) {
    std::size_t gone = 0;
    for (Entry freed; ledger_.drop_past_update(exec, freed);) ++gone;
    const std::size_t before = model_.graphs.size();
    model_.drop_instances(exec, true);
    require(model_.graphs.size() + gone == before);
  }

  bool destroy(EntryType type, std::uint64_t handle) {
    Entry freed;
    unsigned device = 0;
    const bool is_gone = ledger_.destroy_graph(type, handle, device, freed);
    require(!is_gone || !ledger_.destroy_graph(type, handle, ++device, freed));
    return is_gone;
  }

  // Simulates the driver's answer for each: live or not.
  void drop_left() {
    std::size_t place = 0;
    std::map<std::uint64_t, std::uint64_t> seen;
    for (Entry left; ledger_.next_graph_orphan(0, place, left);) {
      seen[left.address] = left.bytes;
      require(model_.left.count(left.address) != 0);
      if (next() % 2 == 0) {
        require(ledger_.keep_graph_orphan(left.address));
        ++place;
        continue;
      }
      require(ledger_.drop_graph_orphan(left.address, left));
      model_.leaving += left.bytes;
      model_.left.erase(left.address);
    }
    for (const auto& [address, bytes] : model_.left) require(seen.count(address) != 0);
  }
  // A graph from which an exec was instantiated cannot become a child graph.
  void move_graph(std::uint64_t child, std::uint64_t parent) {
    if (child == parent || model_.graphs.count(child) == 0 || model_.graphs.at(child).users != 1 ||
        model_.graphs.at(child).may_run || model_.graphs.count(parent) == 0)
      return;
    ledger_.move_graph(child, parent);
    model_.graphs.at(parent).charged += model_.graphs.at(child).charged;
    model_.graphs.at(parent).blocks += model_.graphs.at(child).blocks;
    model_.graphs.erase(child);
    for (auto& [address, node] : model_.nodes)
      if (node.graph == child) node.graph = parent;
    for (auto& [number, freed] : model_.frees)
      if (freed.first == child) freed.first = parent;
  }

  void drop_context() {
    const std::uint64_t context = 1 + next() % 2;
    Entry dropped;
    Ledger::Pass pass;
    while (ledger_.drop_from_context(context, pass, dropped)) {
      require(model_.blocks.at(dropped.address).context == context);
      model_.free_block(dropped.address);
    }
    for (const auto& [where, block] : model_.blocks) require(block.context != context);
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
  Ledger ledger_;
  Model model_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 20'000) return 0;
  Calls(data, size).make_all();
  return 0;
}
