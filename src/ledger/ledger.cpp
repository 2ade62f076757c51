#include "ledger/ledger.h"

namespace headroom::ledger {

class Ledger::Locked {
 public:
  explicit Locked(Ledger& ledger) : mutex_(ledger.mutex_) { ::pthread_mutex_lock(&mutex_); }
  ~Locked() { ::pthread_mutex_unlock(&mutex_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

void Ledger::set_integrated(unsigned device, bool is_integrated) {
  if (device < kMostDevices) devices_[device].is_integrated = is_integrated;
}

bool Ledger::is_charged(unsigned device, DeviceMemoryKind kind) const {
  return device < kMostDevices && takes_device_memory(kind, devices_[device].is_integrated);
}

bool Ledger::charge(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) {
  if (account_.charge(device, bytes)) return true;
  refuse(device, kind, bytes);
  return false;
}

void Ledger::refuse(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) {
  const std::uint64_t charged = account_.charged(device);
  const Locked locked(*this);
  KindFigures& figures = of(device, kind);
  ++figures.refused_count;
  figures.refused_bytes += bytes;
  last_refusal_ = {device, kind, bytes, charged, account_.limit(device)};
}

bool Ledger::reserve(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) {
  return !is_charged(device, kind) || charge(device, kind, bytes);
}

void Ledger::cancel(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) {
  if (is_charged(device, kind)) account_.discharge(device, bytes);
}

void Ledger::count_in(const Entry& entry) {
  KindFigures& figures = of(entry.device, entry.kind);
  figures.live_bytes += entry.bytes;
  ++figures.live_count;
  ++figures.allocations;
  if (figures.live_bytes > figures.peak_bytes) figures.peak_bytes = figures.live_bytes;
}

void Ledger::count_out(const Entry& entry) {
  KindFigures& figures = of(entry.device, entry.kind);
  figures.live_bytes -= entry.bytes;
  --figures.live_count;
  ++figures.releases;
}

void Ledger::commit(Entry entry) {
  // What is in a pool or a graph is charged with that.
  const bool is_part = entry.kind == DeviceMemoryKind::pool || entry.kind == DeviceMemoryKind::graph;
  entry.charged = is_charged(entry.device, entry.kind) && !is_part ? entry.bytes : 0;
  std::uint64_t lost = 0;
  {
    const Locked locked(*this);
    Entry replaced;
    // Its release was not seen (a context that went in a way of its own): what it was charged is free.
    if (table_.take(entry.space, entry.address, replaced)) {
      lost = replaced.charged;
      count_out(replaced);
    }
    // Without memory for the entry its release will not be known, so it is not charged either.
    if (table_.insert(entry))
      count_in(entry);
    else
      lost += entry.charged;
  }
  if (lost > 0) account_.discharge(entry.device, lost);
}

bool Ledger::reopen(const Entry& entry) {
  {
    const Locked locked(*this);
    Entry* const known = table_.find(entry.space, entry.address);
    if (known != nullptr && known->kind == entry.kind) {
      ++known->references;
      return true;
    }
  }
  commit(entry);
  return false;
}

bool Ledger::is_last_reference(std::uint64_t pointer) {
  const Locked locked(*this);
  Entry* const entry = table_.find(Space::pointer, pointer);
  if (entry == nullptr || entry->references <= 1) return true;
  --entry->references;
  return false;
}

bool Ledger::begin_release(Space space, std::uint64_t address, Entry& entry) {
  const Locked locked(*this);
  return table_.take(space, address, entry);
}

void Ledger::undo_release(const Entry& entry) {
  const Locked locked(*this);
  table_.insert(entry);
}

void Ledger::finish_release(const Entry& entry) {
  std::uint64_t discharged = entry.charged;
  {
    const Locked locked(*this);
    count_out(entry);
    if (Entry* const pool =
            entry.kind == DeviceMemoryKind::pool ? table_.find(Space::pool, entry.link) : nullptr) {
      pool->bytes -= entry.bytes < pool->bytes ? entry.bytes : pool->bytes;
      // Of a pool that was destroyed before, the last allocation is the end.
      if (pool->references == 0 && pool->bytes == 0) {
        discharged += pool->charged;
        Entry gone;
        table_.take(Space::pool, entry.link, gone);
      }
    }
  }
  if (discharged > 0) account_.discharge(entry.device, discharged);
}

// --- memory by handle

std::uint64_t Ledger::commit_physical(std::uint64_t handle, unsigned device, DeviceMemoryKind kind,
                                      std::uint64_t bytes) {
  const Locked locked(*this);
  Entry physical;
  physical.space = Space::physical;
  physical.address = ++last_physical_;
  physical.bytes = bytes;
  physical.device = static_cast<std::uint16_t>(device);
  physical.kind = kind;
  physical.charged = is_charged(device, kind) ? bytes : 0;
  Entry entry = physical;
  entry.space = Space::handle;
  entry.address = handle;
  entry.link = physical.address;
  entry.charged = 0;
  table_.insert(physical);
  table_.insert(entry);
  count_in(physical);
  return physical.address;
}

void Ledger::retain_handle(std::uint64_t handle, std::uint64_t mapped_address) {
  const Locked locked(*this);
  if (Entry* const known = table_.find(Space::handle, handle)) {
    ++known->references;
    return;
  }
  std::uint64_t number = 0;
  table_.for_each([&](const Entry& entry) {
    if (entry.space == Space::mapping && mapped_address - entry.address < entry.bytes) number = entry.link;
  });
  Entry* const physical = table_.find(Space::physical, number);
  if (physical == nullptr) return;
  ++physical->references;
  Entry entry = *physical;
  entry.space = Space::handle;
  entry.address = handle;
  entry.link = number;
  entry.charged = 0;
  entry.references = 1;
  table_.insert(entry);
}

Ledger::HandleRelease Ledger::begin_release_handle(std::uint64_t handle) {
  const Locked locked(*this);
  HandleRelease release;
  Entry* const entry = table_.find(Space::handle, handle);
  if (entry == nullptr) return release;
  release.is_known = true;
  release.handle = *entry;
  if (--entry->references > 0) return release;
  Entry gone;
  table_.take(Space::handle, handle, gone);
  Entry* const physical = table_.find(Space::physical, release.handle.link);
  if (physical == nullptr) return release;
  release.physical = *physical;
  release.is_last = --physical->references == 0;
  if (release.is_last) table_.take(Space::physical, release.handle.link, gone);
  return release;
}

void Ledger::undo_release_handle(const HandleRelease& release) {
  if (!release.is_known) return;
  const Locked locked(*this);
  if (Entry* const entry = table_.find(Space::handle, release.handle.address)) {
    ++entry->references;
    return;
  }
  table_.insert(release.handle);
  if (release.is_last) {
    table_.insert(release.physical);
  } else if (Entry* const physical = table_.find(Space::physical, release.handle.link)) {
    ++physical->references;
  }
}

void Ledger::finish_release_handle(const HandleRelease& release) {
  if (!release.is_last) return;
  {
    const Locked locked(*this);
    count_out(release.physical);
  }
  account_.discharge(release.physical.device, release.physical.charged);
}

Entry Ledger::map(std::uint64_t address, std::uint64_t bytes, std::uint64_t handle) {
  const Locked locked(*this);
  Entry mapping;
  mapping.space = Space::mapping;
  mapping.address = address;
  mapping.bytes = bytes;
  mapping.kind = DeviceMemoryKind::mapping;
  if (const Entry* const entry = table_.find(Space::handle, handle)) mapping.link = entry->link;
  if (Entry* const physical = table_.find(Space::physical, mapping.link)) {
    ++physical->references;
    mapping.device = physical->device;
  }
  if (table_.insert(mapping)) count_in(mapping);
  return mapping;
}

bool Ledger::drop_physical_reference(std::uint64_t number, Entry& freed) {
  Entry* const physical = table_.find(Space::physical, number);
  if (physical == nullptr || --physical->references > 0) return false;
  count_out(*physical);
  return table_.take(Space::physical, number, freed);
}

bool Ledger::unmap_one(std::uint64_t address, std::uint64_t bytes, Entry& mapping, Entry& freed) {
  freed = Entry{};
  bool is_freed = false;
  {
    const Locked locked(*this);
    // Mostly exactly one.
    if (!table_.take(Space::mapping, address, mapping) && !table_.take_if(
                                                              [&](const Entry& entry) {
                                                                return entry.space == Space::mapping &&
                                                                       entry.address - address < bytes;
                                                              },
                                                              mapping))
      return false;
    count_out(mapping);
    is_freed = drop_physical_reference(mapping.link, freed);
  }
  if (is_freed) account_.discharge(freed.device, freed.charged);
  return true;
}

// --- pools

bool Ledger::reserve_in_pool(std::uint64_t pool, unsigned device, std::uint64_t bytes) {
  // The lock is held while the account is asked: two threads must not both take what the pool has left.
  bool granted = true;
  std::uint64_t growth = 0;
  {
    const Locked locked(*this);
    Entry* entry = table_.find(Space::pool, pool);
    if (entry == nullptr) {
      Entry fresh;
      fresh.space = Space::pool;
      fresh.address = pool;
      fresh.device = static_cast<std::uint16_t>(device);
      fresh.kind = DeviceMemoryKind::pool_reserved;
      if (!table_.insert(fresh)) return true;
      entry = table_.find(Space::pool, pool);
    }
    const std::uint64_t spare = entry->charged - entry->bytes;
    growth = bytes > spare ? bytes - spare : 0;
    granted = growth == 0 || account_.charge(device, growth);
    if (granted) {
      entry->charged += growth;
      entry->bytes += bytes;
    }
  }
  if (!granted) refuse(device, DeviceMemoryKind::pool, bytes);
  return granted;
}

void Ledger::cancel_in_pool(std::uint64_t pool, std::uint64_t bytes) {
  const Locked locked(*this);
  Entry* const entry = table_.find(Space::pool, pool);
  if (entry == nullptr) return;
  entry->bytes -= bytes < entry->bytes ? bytes : entry->bytes;
  // The driver could not give it, so the pool does not keep it.
  const std::uint64_t spare = entry->charged - entry->bytes;
  const std::uint64_t back = spare < bytes ? spare : bytes;
  entry->charged -= back;
  account_.discharge(entry->device, back);
}

bool Ledger::settle_pool(std::uint64_t pool, std::uint64_t reserved_bytes) {
  const Locked locked(*this);
  Entry* const entry = table_.find(Space::pool, pool);
  if (entry == nullptr) return false;
  const bool is_new = entry->link != reserved_bytes;
  entry->link = reserved_bytes;  // of a pool: the figure
  const std::uint64_t kept = entry->bytes > reserved_bytes ? entry->bytes : reserved_bytes;
  if (kept >= entry->charged) return is_new;
  account_.discharge(entry->device, entry->charged - kept);
  entry->charged = kept;
  return is_new;
}

void Ledger::destroy_pool(std::uint64_t pool) {
  const Locked locked(*this);
  Entry* const entry = table_.find(Space::pool, pool);
  if (entry == nullptr) return;
  entry->references = 0;
  const std::uint64_t spare = entry->charged - entry->bytes;
  account_.discharge(entry->device, spare);
  entry->charged -= spare;
  Entry gone;
  if (entry->bytes == 0) table_.take(Space::pool, pool, gone);
}

std::uint64_t Ledger::pool_to_settle(unsigned device, unsigned skip) {
  const Locked locked(*this);
  std::uint64_t found = 0;
  table_.for_each([&](const Entry& entry) {
    if (found != 0 || entry.space != Space::pool || entry.device != device || entry.charged <= entry.bytes)
      return;
    if (skip-- == 0) found = entry.address;
  });
  return found;
}

bool Ledger::device_of_pool(std::uint64_t pool, unsigned& device) {
  const Locked locked(*this);
  const Entry* const entry = table_.find(Space::pool, pool);
  if (entry != nullptr) device = entry->device;
  return entry != nullptr;
}

std::uint64_t Ledger::reserved_by_pools(unsigned device) {
  const Locked locked(*this);
  std::uint64_t bytes = 0;
  table_.for_each([&](const Entry& entry) {
    if (entry.space == Space::pool && entry.device == device) bytes += entry.link;
  });
  return bytes;
}

// --- graphs

bool Ledger::reserve_in_graph(std::uint64_t graph, unsigned device, std::uint64_t bytes,
                              std::uint64_t& before, std::uint64_t& after) {
  bool granted = true;
  before = after = 0;
  {
    const Locked locked(*this);
    Entry* entry = table_.find(Space::graph, graph);
    if (entry == nullptr) {
      Entry fresh;
      fresh.space = Space::graph;
      fresh.address = graph;
      fresh.device = static_cast<std::uint16_t>(device);
      fresh.kind = DeviceMemoryKind::graph;
      if (!table_.insert(fresh)) return true;
      entry = table_.find(Space::graph, graph);
    }
    // In a graph of several devices each node would have to be charged to its own; the first has it all.
    before = entry->charged;
    const std::uint64_t spare = entry->charged - entry->bytes;
    const std::uint64_t growth = bytes > spare ? bytes - spare : 0;
    granted = growth == 0 || account_.charge(entry->device, growth);
    if (granted) {
      entry->charged += growth;
      entry->bytes += bytes;
    }
    after = entry->charged;
  }
  if (!granted) refuse(device, DeviceMemoryKind::graph, bytes);
  return granted;
}

void Ledger::cancel_in_graph(std::uint64_t graph, std::uint64_t bytes) {
  const Locked locked(*this);
  Entry* const entry = table_.find(Space::graph, graph);
  if (entry == nullptr) return;
  entry->bytes -= bytes < entry->bytes ? bytes : entry->bytes;
  const std::uint64_t spare = entry->charged - entry->bytes;
  const std::uint64_t back = spare < bytes ? spare : bytes;
  entry->charged -= back;
  account_.discharge(entry->device, back);
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

// --- contexts and processes

bool Ledger::drop_from_context(std::uint64_t context, Entry& dropped) {
  {
    const Locked locked(*this);
    if (!table_.take_if([&](const Entry& entry) { return entry.context == context && context != 0; },
                        dropped))
      return false;
  }
  finish_release(dropped);
  return true;
}

KindFigures Ledger::figures(unsigned device, DeviceMemoryKind kind) {
  const Locked locked(*this);
  return of(device, kind);
}

Refusal Ledger::last_refusal() {
  const Locked locked(*this);
  return last_refusal_;
}

void Ledger::reset_in_child() {
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  table_.clear();
  for (PerDevice& device : devices_) device = PerDevice{};
  last_refusal_ = Refusal{};
  account_.leave_to_parent();
}

}  // namespace headroom::ledger
