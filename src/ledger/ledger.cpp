#include "ledger/ledger.h"
#include "ledger/ledger_lock.h"

namespace headroom::ledger {
namespace {
constexpr std::uint64_t kApart = std::uint64_t{1} << 61;  // and so no handle
constinit thread_local Refusal refusal_of_this_thread __attribute__((tls_model("initial-exec")));
}  // namespace

void Ledger::set_integrated(unsigned device, bool is_integrated) {
  if (device < kMostDevices) devices_[device].is_integrated = is_integrated;
}

bool Ledger::is_charged(unsigned device, DeviceMemoryKind kind) const {
  return device < kMostDevices && takes_device_memory(kind, devices_[device].is_integrated);
}

void Ledger::refuse(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes, std::uint64_t needed) {
  const Account::Room room = account_.tightest(device);
  const std::uint64_t own = account_.charged_to_this_process(device);
  account_.note_refusal(device, bytes, needed > bytes ? needed : bytes);
  const Locked locked(*this);
  KindFigures& figures = of(device, kind);
  ++figures.refused_count;
  figures.refused_bytes += bytes;
  refusal_of_this_thread = {device, kind, bytes, room.charged, own, room.limit};
  if (device < kMostDevices) devices_[device].last_refusal = refusal_of_this_thread;
}

bool Ledger::try_reserve(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) {
  return !is_charged(device, kind) || account_.reserve(device, charge_of(device, kind, bytes));
}

bool Ledger::reserve(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) {
  if (try_reserve(device, kind, bytes)) return true;
  refuse(device, kind, bytes, charge_of(device, kind, bytes));
  return false;
}

bool Ledger::reserve_instead(unsigned device, DeviceMemoryKind kind, std::uint64_t before,
                             std::uint64_t bytes) {
  const std::uint64_t had = charge_of(device, kind, before), needed = charge_of(device, kind, bytes);
  if (!is_charged(device, kind) || had == needed) return true;
  if (needed < had) {
    account_.discharge(device, had - needed);
  } else if (!account_.reserve(device, needed - had)) {
    refuse(device, kind, bytes, needed - had);
    return false;
  }
  return true;
}

void Ledger::cancel(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) {
  if (is_charged(device, kind)) account_.discharge(device, charge_of(device, kind, bytes));
}

void Ledger::count_in(const Entry& entry) {
  KindFigures& figures = of(entry.device, entry.kind);
  figures.live_bytes += entry.bytes;
  if (granule(entry.device) == 0) figures.rounding_bytes += rounding_of(entry.kind, entry.bytes);
  ++figures.live_count;
  ++figures.allocations;
  if (figures.live_bytes > figures.peak_bytes) figures.peak_bytes = figures.live_bytes;
}

void Ledger::count_out(const Entry& entry) {
  KindFigures& figures = of(entry.device, entry.kind);
  figures.live_bytes -= entry.bytes;
  if (granule(entry.device) == 0) figures.rounding_bytes -= rounding_of(entry.kind, entry.bytes);
  --figures.live_count;
  ++figures.releases;
}

void Ledger::commit(Entry entry, bool was_reserved) {
  // What is in a pool or a graph is charged with that.
  const bool is_part = entry.kind == DeviceMemoryKind::pool || entry.kind == DeviceMemoryKind::graph;
  entry.charged = was_reserved && is_charged(entry.device, entry.kind) && !is_part
                      ? charge_of(entry.device, entry.kind, entry.bytes)
                      : 0;
  put_in_place(entry);
  if (entry.charged > 0 || is_part) account_.note_peaks(entry.device);
}

void Ledger::put_in_place(const Entry& entry) {
  Entry replaced;
  {
    const Locked locked(*this);
    replaced = put(entry);
  }
  // Addresses are unified over devices: what lay there may have been another's.
  if (replaced.charged > 0) account_.discharge(replaced.device, replaced.charged);
}

Entry Ledger::put(const Entry& entry) {
  Entry replaced;
  // Its release was not seen (a context that went in a way of its own): what it was charged is free.
  if (table_.take(entry.space, entry.address, replaced)) {
    count_out(replaced);
    if (is_left_by_graph(replaced) && replaced.device < kMostDevices)
      devices_[replaced.device].left_by_graphs -= replaced.charged;
    replaced.charged = charge_that_goes_with(replaced);
  }
  // Without memory for the entry its release will not be known: then it stays charged, as a limit must hold.
  if (table_.insert(entry)) count_in(entry);
  return replaced;
}

void Ledger::keep_charged(std::uint64_t pointer, std::uint64_t bytes) {
  const Locked locked(*this);
  if (Entry* const entry = table_.find(Space::pointer, pointer)) {
    entry->references |= kHeldByOthers;
    return;
  }
  table_.for_each([&](const Entry& one) {
    if (one.space != Space::mapping || (one.address - pointer >= bytes && pointer - one.address >= one.bytes))
      return;
    if (Entry* const physical = table_.find(Space::physical, one.link)) physical->references |= kHeldByOthers;
  });
}

bool Ledger::begin_to_share(std::uint64_t pointer, Entry& part) {
  const Locked locked(*this);
  part = Entry{};
  Entry* const entry = table_.find(Space::pointer, pointer);
  const bool is_part = entry != nullptr &&
                       (entry->kind == DeviceMemoryKind::pool || entry->kind == DeviceMemoryKind::graph) &&
                       (entry->references & kHeldByOthers) == 0;
  if (!is_part) return true;
  part = *entry;
  const std::uint64_t step = pool_step_.load();
  const std::uint64_t rest = step > 1 ? part.bytes % step : 0;
  part.charged = part.bytes + (rest != 0 ? step - rest : 0);
  if (!account_.reserve(part.device, part.charged)) return false;
  entry->references |= kHeldByOthers;
  return true;
}

void Ledger::undo_share(const Entry& part) {
  if (part.address == 0) return;
  const Locked locked(*this);
  if (Entry* const entry = table_.find(Space::pointer, part.address)) entry->references &= ~kHeldByOthers;
  account_.discharge(part.device, part.charged);
}

void Ledger::finish_share(const Entry& part) {
  if (part.address != 0) account_.note_peaks(part.device);
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
  if (entry == nullptr || (entry->references & ~kHeldByOthers) <= 1) return true;
  --entry->references;
  return false;
}

void Ledger::add_reference(std::uint64_t pointer) {
  const Locked locked(*this);
  if (Entry* const entry = table_.find(Space::pointer, pointer)) ++entry->references;
}

bool Ledger::begin_release(Space space, std::uint64_t address, Entry& entry, bool is_alone) {
  const Locked locked(*this);
  // What a node made is the graph's as long as that lives: its next launch makes it again.
  if (const Entry* const known = table_.find(space, address); known != nullptr && is_node(*known))
    return false;
  if (!table_.take(space, address, entry)) return false;
  if (entry.kind == DeviceMemoryKind::pool && !is_alone) begin_to_leave_pool(entry);
  return true;
}

// Until the driver has freed it the pool has it, also when another thread destroys the pool meanwhile: under
// a number, as the driver may give its address to a third.
void Ledger::begin_to_leave_pool(Entry& entry) {
  Entry leaving = entry;
  leaving.space = Space::leaving_pool;
  leaving.address = ++last_leaving_;
  if (!table_.insert(leaving)) return;
  entry.pending = leaving.address;
  ++leaving_pools_;
}

// What it had of a pool stays charged with the pool until the driver tells that it went; what is freed in the
// order of a stream is not for others before it was. Of a destroyed pool the context of that stream tells,
// and if that is not known, nothing does.
void Ledger::leave_pool(const Entry& entry, bool is_in_order, std::uint64_t stream_context) {
  Entry leaving = entry;
  if (entry.pending != 0 && table_.take(Space::leaving_pool, entry.pending, leaving)) --leaving_pools_;
  Entry* const pool = table_.find(Space::pool, leaving.link);
  if (pool == nullptr) return;
  pool->bytes -= entry.bytes < pool->bytes ? entry.bytes : pool->bytes;
  if (is_in_order) note_free_in_order(*pool, entry.bytes, stream_context);
}

void Ledger::note_free_in_order(Entry& pool, std::uint64_t bytes, std::uint64_t stream_context) {
  pool.pending += bytes;
  note_context_of_stream(pool, stream_context);
  if (pool_waits_ == 0) return;
  if (Entry* const wait = table_.find(Space::pool_wait, pool.address)) wait->pending += bytes;
}

void Ledger::undo_release(const Entry& entry) {
  if (!put_back(entry)) finish_release(entry);
}

bool Ledger::put_back(const Entry& entry) {
  const Locked locked(*this);
  Entry again = entry;
  Entry leaving;
  if (!find_context_again(again)) return false;
  if (entry.kind == DeviceMemoryKind::pool && entry.pending != 0 &&
      table_.take(Space::leaving_pool, entry.pending, leaving)) {
    again.link = leaving.link;
    again.pending = 0;
    --leaving_pools_;
  }
  table_.insert(again);
  return true;
}

void Ledger::finish_release(const Entry& entry, bool is_in_order, std::uint64_t stream_context) {
  std::uint64_t charged = 0;
  {
    const Locked locked(*this);
    if (entry.kind == DeviceMemoryKind::pool) leave_pool(entry, is_in_order, stream_context);
    if (is_in_order && entry.kind != DeviceMemoryKind::pool && has_to_wait(entry))
      return leave_in_order(entry, stream_context);
    charged = count_release(entry);
  }
  if (charged > 0) account_.discharge(entry.device, charged);
}

// Where there is no limit nobody waits.
bool Ledger::has_to_wait(const Entry& entry) const {
  return (entry.charged != 0 || entry.link != 0) && account_.limit(entry.device) != kNoLimit;
}

// The driver frees what was no pool's, too, when the stream comes to it. Without memory for the entry it
// stays charged.
void Ledger::leave_in_order(Entry entry, std::uint64_t stream_context) {
  count_out(entry);
  entry.space = Space::leaving;
  entry.address = ++last_leaving_;
  entry.context = entry.pending = 0;
  note_context_of_stream(entry, stream_context);
  if (!table_.insert(entry)) return;
  ++leaving_in_order_;
  Entry* const shared = entry.link != 0 ? table_.find(Space::granule, entry.link) : nullptr;
  if (shared != nullptr) ++shared->bytes;
}

std::uint64_t Ledger::count_release(const Entry& entry) {
  count_out(entry);
  return charge_that_goes_with(entry);
}

// --- contexts and processes

// What a call had in hand while its context was set apart: false if that has gone since.
bool Ledger::find_context_again(Entry& entry) {
  if ((entry.context & kApart) == 0) return true;
  const Entry* const known = table_.find(Space::apart, entry.context);
  if (known == nullptr) return false;
  if (known->link != 0) entry.context = known->link;
  return true;
}

void Ledger::move_to(Whole what, std::uint64_t from, std::uint64_t to) {
  const Locked locked(*this);
  table_.for_each([&](Entry& entry) {
    if (entry.context == from && (entry.space == Space::part) == (what == Whole::array)) entry.context = to;
    if (what == Whole::context && entry.space == Space::granule && entry.link == from) entry.link = to;
  });
}

std::uint64_t Ledger::set_apart(Whole what, std::uint64_t handle) {
  if (handle == 0 || (what == Whole::array && !has_parts_)) return 0;
  const std::uint64_t number = kApart | last_apart_.fetch_add(1);
  if (what == Whole::context) {
    const Locked locked(*this);
    Entry apart;
    apart.space = Space::apart;
    apart.address = number;
    table_.insert(apart);
  }
  move_to(what, handle, number);
  return number;
}

void Ledger::undo_set_apart(Whole what, std::uint64_t number, std::uint64_t handle) {
  if (number == 0) return;
  {
    const Locked locked(*this);
    if (Entry* const apart = table_.find(Space::apart, number)) apart->link = handle;
  }
  move_to(what, number, handle);
}

bool Ledger::drop_from_context(std::uint64_t context, Pass& pass, Entry& dropped) {
  if (context == 0) return false;
  std::uint64_t charged = 0;
  {
    const Locked locked(*this);
    const auto is_of_context = [&](const Entry& entry) {
      return entry.context == context && entry.space != Space::part && entry.space != Space::leaving_pool &&
             !has_context_of_stream(entry);
    };
    if (!find_next(pass, is_of_context)) {
      // Its streams have ended: for what they freed any wait will do.
      table_.for_each([&](Entry& entry) {
        if (!has_context_of_stream(entry) || entry.context != context) return;
        if (entry.space == Space::physical && entry.references > 0) --unmapped_in_order_;
        entry.context = 0;
      });
      Entry apart;
      table_.take(Space::apart, context, apart);
      return false;
    }
    table_.take_at(pass.place, dropped);
    if (dropped.space == Space::capture) {
      --captures_;
      return true;
    }
    if (dropped.kind == DeviceMemoryKind::pool) leave_pool(dropped, false, 0);
    charged = count_release(dropped);
  }
  if (charged > 0) account_.discharge(dropped.device, charged);
  return true;
}

Entry* Ledger::find_or_insert(const Entry& fresh) {
  Entry* const known = table_.find(fresh.space, fresh.address);
  if (known != nullptr) return known;
  return table_.insert(fresh) ? table_.find(fresh.space, fresh.address) : nullptr;
}

KindFigures Ledger::figures(unsigned device, DeviceMemoryKind kind) {
  const Locked locked(*this);
  return of(device, kind);
}

std::uint64_t Ledger::rounding_bytes(unsigned device) {
  return figures(device, DeviceMemoryKind::device).rounding_bytes +
         figures(device, DeviceMemoryKind::array).rounding_bytes;
}

Refusal Ledger::last_refusal_of_this_thread() { return refusal_of_this_thread; }

Refusal Ledger::last_refusal(unsigned device) {
  const Locked locked(*this);
  return device < kMostDevices ? devices_[device].last_refusal : Refusal{};
}

void Ledger::reset_in_child() {
  mutex_ = PTHREAD_MUTEX_INITIALIZER;
  table_.clear();
  for (PerDevice& device : devices_) device.reset();
  captures_ = leaving_in_order_ = unmapped_in_order_ = 0;
  leaving_pools_ = pool_waits_ = 0;
  is_beyond_ = false;
  account_.leave_to_parent();
}

}  // namespace headroom::ledger
