// Reservations, allocations, frees and contexts. ledger.h explains the concept.
#include "ledger/ledger.h"

#include "ledger/ledger_internal.h"

namespace headroom::ledger {
namespace {
constexpr std::uint64_t kDestroyedContext = std::uint64_t{1} << 61;  // no handle has this bit
constinit thread_local Refusal refusal_of_this_thread __attribute__((tls_model("initial-exec")));
}  // namespace

void Ledger::set_integrated(unsigned device, bool is_integrated) {
  if (device < kMaxDevices) devices_[device].is_integrated = is_integrated;
}

bool Ledger::is_charged(unsigned device, DeviceMemoryKind kind) const {
  return device < kMaxDevices && takes_device_memory(kind, devices_[device].is_integrated);
}

void Ledger::refuse(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes, std::uint64_t needed) {
  const Account::LimitUsage usage = account_.tightest_limit(device);
  const std::uint64_t own = account_.charged_to_this_process(device);
  account_.note_refusal(device, bytes, needed > bytes ? needed : bytes);
  const Locked locked(lock_);
  KindFigures& figures = of(device, kind);
  ++figures.refused_count;
  figures.refused_bytes += bytes;
  refusal_of_this_thread = {device, kind, bytes, usage.charged, own, usage.limit};
  if (device < kMaxDevices) devices_[device].last_refusal = refusal_of_this_thread;
}

bool Ledger::try_reserve(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) {
  return !is_charged(device, kind) || account_.reserve(device, charge_of(device, kind, bytes));
}

bool Ledger::reserve(unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) {
  if (try_reserve(device, kind, bytes)) return true;
  refuse(device, kind, bytes, charge_of(device, kind, bytes));
  return false;
}

bool Ledger::change_reservation(unsigned device, DeviceMemoryKind kind, std::uint64_t before,
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
  // Memory of a pool or graph is part of its charge.
  const bool is_part = entry.kind == DeviceMemoryKind::pool || entry.kind == DeviceMemoryKind::graph;
  entry.charged = was_reserved && is_charged(entry.device, entry.kind) && !is_part
                      ? charge_of(entry.device, entry.kind, entry.bytes)
                      : 0;
  insert_or_replace(entry);
  if (entry.charged > 0 || is_part) account_.note_peaks(entry.device);
}

void Ledger::insert_or_replace(const Entry& entry) {
  const Locked locked(lock_);
  Entry replaced;
  // The release of the old entry was not seen (for example, its context was destroyed in an unknown way), but
  // its memory is free.
  if (table_.remove(entry.type, entry.address, replaced)) {
    count_out(replaced);
    if (is_graph_orphan(replaced) && replaced.device < kMaxDevices)
      devices_[replaced.device].orphan_charge -= replaced.charged;
    // All devices share one address space: the replaced entry may belong to another device.
    discharge(replaced.device, remove_from_granule(replaced));
  }
  // If no memory is available for the entry, its release cannot be recorded. It stays charged: the limit must
  // hold.
  if (table_.insert(entry)) count_in(entry);
}

void Ledger::mark_exported(std::uint64_t pointer, std::uint64_t bytes) {
  const Locked locked(lock_);
  if (Entry* const entry = table_.find(EntryType::pointer, pointer)) {
    entry->references |= kExported;
    return;
  }
  table_.for_each([&](const Entry& one) {
    if (one.type != EntryType::mapping ||
        (one.address - pointer >= bytes && pointer - one.address >= one.bytes))
      return;
    if (Entry* const physical = table_.find(EntryType::physical, one.owner))
      physical->references |= kExported;
  });
}

bool Ledger::begin_export(std::uint64_t pointer, Entry& part) {
  const Locked locked(lock_);
  part = Entry{};
  Entry* const entry = table_.find(EntryType::pointer, pointer);
  const bool is_part = entry != nullptr &&
                       (entry->kind == DeviceMemoryKind::pool || entry->kind == DeviceMemoryKind::graph) &&
                       (entry->references & kExported) == 0;
  if (!is_part) return true;
  part = *entry;
  const std::uint64_t step = pool_step_.load();
  const std::uint64_t rest = step > 1 ? part.bytes % step : 0;
  part.charged = part.bytes + (rest != 0 ? step - rest : 0);
  if (!account_.reserve(part.device, part.charged)) return false;
  entry->references |= kExported;
  return true;
}

void Ledger::undo_export(const Entry& part) {
  if (part.address == 0) return;
  const Locked locked(lock_);
  if (Entry* const entry = table_.find(EntryType::pointer, part.address)) entry->references &= ~kExported;
  account_.discharge(part.device, part.charged);
}

void Ledger::finish_export(const Entry& part) {
  if (part.address != 0) account_.note_peaks(part.device);
}

bool Ledger::add_reference_or_commit(const Entry& entry) {
  const Locked locked(lock_);
  Entry* const known = table_.find(entry.type, entry.address);
  if (known != nullptr && known->kind == entry.kind) {
    ++known->references;
    return true;
  }
  commit(entry);
  return false;
}

bool Ledger::is_last_else_drop_reference(std::uint64_t pointer) {
  const Locked locked(lock_);
  Entry* const entry = table_.find(EntryType::pointer, pointer);
  if (entry == nullptr || (entry->references & ~kExported) <= 1) return true;
  --entry->references;
  return false;
}

void Ledger::add_reference(std::uint64_t pointer) {
  const Locked locked(lock_);
  if (Entry* const entry = table_.find(EntryType::pointer, pointer)) ++entry->references;
}

bool Ledger::begin_release(EntryType type, std::uint64_t address, Entry& entry, bool is_exclusive) {
  const Locked locked(lock_);
  // A node's memory belongs to its graph while that exists: the next launch allocates it again.
  if (const Entry* const known = table_.find(type, address); known != nullptr && is_node(*known))
    return false;
  if (!table_.remove(type, address, entry)) return false;
  if (entry.kind == DeviceMemoryKind::pool && !is_exclusive) begin_pool_free(entry);
  return true;
}

// Until the driver has freed the memory, the pool has it, even if another thread destroys the pool meanwhile.
// It is kept under a number, because the driver may give its address to a third thread.
void Ledger::begin_pool_free(Entry& entry) {
  Entry in_progress = entry;
  in_progress.type = EntryType::pool_free_in_progress;
  in_progress.address = ++last_free_;
  in_progress.of = {};
  if (!table_.insert(in_progress)) return;
  entry.of.pointer.free_in_progress = in_progress.address;
  ++pool_frees_in_progress_;
}

// The freed memory stays in the pool's charge until the driver's figure falls. After a stream-ordered free,
// no other request can use it before the stream has reached that point. For a destroyed pool, a wait for the
// stream's context ends the charge; if the context is unknown, nothing does.
void Ledger::remove_from_pool(const Entry& entry, bool is_stream_ordered, std::uint64_t stream_context) {
  Entry in_progress = entry;
  const std::uint64_t number = entry.of.pointer.free_in_progress;
  if (number != 0 && table_.remove(EntryType::pool_free_in_progress, number, in_progress))
    --pool_frees_in_progress_;
  Entry* const pool = table_.find(EntryType::pool, in_progress.owner);
  if (pool == nullptr) return;
  pool->bytes -= entry.bytes < pool->bytes ? entry.bytes : pool->bytes;
  if (is_stream_ordered) note_pending_free(*pool, entry.bytes, stream_context);
}

void Ledger::note_pending_free(Entry& pool, std::uint64_t bytes, std::uint64_t stream_context) {
  pool.of.pool.pending_bytes += bytes;
  note_stream_context(pool, stream_context);
  pool.of.pool.freed_since_wait += bytes;
}

void Ledger::undo_release(const Entry& entry) {
  if (!restore(entry)) finish_release(entry);
}

bool Ledger::restore(const Entry& entry) {
  const Locked locked(lock_);
  Entry again = entry, in_progress;
  if (!restore_context(again)) return false;
  const std::uint64_t number = entry.of.pointer.free_in_progress;
  if (entry.kind == DeviceMemoryKind::pool && number != 0 &&
      table_.remove(EntryType::pool_free_in_progress, number, in_progress)) {
    again.owner = in_progress.owner;
    again.of = {};
    --pool_frees_in_progress_;
  }
  table_.insert(again);
  return true;
}

void Ledger::finish_release(const Entry& entry, bool is_stream_ordered, std::uint64_t stream_context) {
  const Locked locked(lock_);
  if (entry.kind == DeviceMemoryKind::pool) remove_from_pool(entry, is_stream_ordered, stream_context);
  if (is_stream_ordered && entry.kind != DeviceMemoryKind::pool && must_stay_charged(entry))
    return add_pending_free(entry, stream_context);
  count_out(entry);
  discharge(entry.device, remove_from_granule(entry));
}

// Without a limit nothing ever waits for a stream, so the charge ends at once.
bool Ledger::must_stay_charged(const Entry& entry) const {
  return (entry.charged != 0 || entry.owner != 0) && account_.limit(entry.device) != kNoLimit;
}

// A stream-ordered free of memory that is not from a pool. If no memory is available for the entry, it stays
// charged.
void Ledger::add_pending_free(Entry entry, std::uint64_t stream_context) {
  count_out(entry);
  entry.type = EntryType::pending_free;
  entry.address = ++last_free_;
  entry.context = 0;
  entry.of = {};
  note_stream_context(entry, stream_context);
  if (!table_.insert(entry)) return;
  ++pending_frees_;
  Entry* const shared = entry.owner != 0 ? table_.find(EntryType::granule, entry.owner) : nullptr;
  if (shared != nullptr) ++shared->of.granule.pending_frees;
}

void Ledger::discharge(unsigned device, std::uint64_t charged) {
  if (charged > 0) account_.discharge(device, charged);
}

// --- contexts and processes

// An entry that a call removed while its context was being destroyed: gets the context's handle back if the
// driver failed to destroy it. Returns false if the context is gone.
bool Ledger::restore_context(Entry& entry) {
  if ((entry.context & kDestroyedContext) == 0) return true;
  const Entry* const known = table_.find(EntryType::destroyed_context, entry.context);
  if (known == nullptr) return false;
  if (known->of.destroyed_context.context != 0) entry.context = known->of.destroyed_context.context;
  return true;
}

void Ledger::rename_context(std::uint64_t before, std::uint64_t now) {
  const Locked locked(lock_);
  table_.for_each([&](Entry& entry) {
    if (entry.context == before) entry.context = now;
    if (entry.type == EntryType::granule && entry.of.granule.context == before)
      entry.of.granule.context = now;
  });
}

std::uint64_t Ledger::begin_destroy(std::uint64_t context) {
  if (context == 0) return 0;
  const Locked locked(lock_);
  const std::uint64_t number = kDestroyedContext | last_destroyed_++;
  table_.insert({.address = number, .type = EntryType::destroyed_context});
  rename_context(context, number);
  return number;
}

void Ledger::undo_destroy(std::uint64_t number, std::uint64_t context) {
  if (number == 0) return;
  const Locked locked(lock_);
  if (Entry* const destroyed = table_.find(EntryType::destroyed_context, number))
    destroyed->of.destroyed_context.context = context;
  rename_context(number, context);
}

bool Ledger::drop_from_context(std::uint64_t context, Pass& pass, Entry& dropped) {
  if (context == 0) return false;
  const Locked locked(lock_);
  const auto is_of_context = [&](const Entry& entry) {
    return entry.context == context && entry.type != EntryType::pool_free_in_progress &&
           !has_stream_context(entry);
  };
  if (!find_next(pass, is_of_context)) {
    // Its streams have ended, so any wait completes what they freed.
    table_.for_each([&](Entry& entry) {
      if (has_stream_context(entry) && entry.context == context) entry.context = 0;
    });
    table_.remove(EntryType::destroyed_context, context);
    return false;
  }
  table_.remove_at(pass.place, dropped);
  if (dropped.type == EntryType::capture) {
    --captures_;
    return true;
  }
  if (dropped.kind == DeviceMemoryKind::pool) remove_from_pool(dropped, false, 0);
  count_out(dropped);
  discharge(dropped.device, remove_from_granule(dropped));
  return true;
}

Entry* Ledger::find_or_insert(const Entry& fresh) {
  Entry* const known = table_.find(fresh.type, fresh.address);
  if (known != nullptr) return known;
  return table_.insert(fresh) ? table_.find(fresh.type, fresh.address) : nullptr;
}

KindFigures Ledger::figures(unsigned device, DeviceMemoryKind kind) {
  const Locked locked(lock_);
  return of(device, kind);
}

std::uint64_t Ledger::rounding_bytes(unsigned device) {
  return figures(device, DeviceMemoryKind::device).rounding_bytes +
         figures(device, DeviceMemoryKind::array).rounding_bytes;
}

Refusal Ledger::last_refusal_of_this_thread() { return refusal_of_this_thread; }

Refusal Ledger::last_refusal(unsigned device) {
  const Locked locked(lock_);
  return device < kMaxDevices ? devices_[device].last_refusal : Refusal{};
}

void Ledger::reset_in_child() {
  lock_.reset();
  table_.clear();
  for (PerDevice& device : devices_) device.reset();
  captures_ = pending_frees_ = 0;
  pool_frees_in_progress_ = 0;
  pools_exceed_limit_ = false;
  account_.reset_after_fork();
}

}  // namespace headroom::ledger
