#include "ledger/ledger.h"
#include "ledger/ledger_lock.h"

namespace headroom::ledger {
namespace {
constinit thread_local Refusal refusal_of_this_thread __attribute__((tls_model("initial-exec")));
}

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
  const Account::Room room = account_.tightest(device);
  const std::uint64_t own = account_.charged_to_this_process(device);
  account_.note_refusal(device, bytes);
  const Locked locked(*this);
  KindFigures& figures = of(device, kind);
  ++figures.refused_count;
  figures.refused_bytes += bytes;
  refusal_of_this_thread = last_refusal_ = {device, kind, bytes, room.charged, own, room.limit};
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
  figures.rounding_bytes += rounding_of(entry.kind, entry.bytes);
  ++figures.live_count;
  ++figures.allocations;
  if (figures.live_bytes > figures.peak_bytes) figures.peak_bytes = figures.live_bytes;
}

void Ledger::count_out(const Entry& entry) {
  KindFigures& figures = of(entry.device, entry.kind);
  figures.live_bytes -= entry.bytes;
  figures.rounding_bytes -= rounding_of(entry.kind, entry.bytes);
  --figures.live_count;
  ++figures.releases;
}

void Ledger::commit(Entry entry) {
  // What is in a pool or a graph is charged with that.
  const bool is_part = entry.kind == DeviceMemoryKind::pool || entry.kind == DeviceMemoryKind::graph;
  entry.charged = is_charged(entry.device, entry.kind) && !is_part ? entry.bytes : 0;
  Entry replaced;
  bool is_kept = false;
  {
    const Locked locked(*this);
    // Its release was not seen (a context that went in a way of its own): what it was charged is free.
    if (table_.take(entry.space, entry.address, replaced)) count_out(replaced);
    // Without memory for the entry its release will not be known, so it is not charged either.
    is_kept = table_.insert(entry);
    if (is_kept) count_in(entry);
  }
  // Addresses are unified over devices: what lay there may have been another's.
  if (replaced.charged > 0) account_.discharge(replaced.device, replaced.charged);
  if (!is_kept && entry.charged > 0) account_.discharge(entry.device, entry.charged);
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
  // What a node made is the graph's as long as that lives: its next launch makes it again.
  if (const Entry* const known = table_.find(space, address); known != nullptr && is_node(*known))
    return false;
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

// --- contexts and processes

bool Ledger::drop_from_context(std::uint64_t context, Pass& pass, Entry& dropped) {
  if (context == 0) return false;
  {
    const Locked locked(*this);
    const auto is_of_context = [&](const Entry& entry) {
      return entry.context == context && entry.space != Space::part;
    };
    if (table_.find_from(pass.place, is_of_context) == nullptr) {
      // Between two calls other threads may have moved one to where this pass had been.
      if (!pass.found_some) return false;
      pass = {};
      if (table_.find_from(pass.place, is_of_context) == nullptr) return false;
    }
    pass.found_some = true;
    table_.take_at(pass.place, dropped);
  }
  finish_release(dropped);
  return true;
}

namespace {

// How much more a pool or a graph is to be charged, so that it has room for so many bytes.
std::uint64_t charge_for(const Entry& whole, std::uint64_t bytes, std::uint64_t step) {
  const std::uint64_t spare = whole.charged - whole.bytes;
  if (bytes <= spare) return 0;
  const std::uint64_t more = bytes - spare;
  std::uint64_t all = 0;
  if (step <= 1 || __builtin_add_overflow(whole.charged, more, &all) || all % step == 0) return more;
  return __builtin_add_overflow(more, step - all % step, &all) ? more : all;
}

}  // namespace

Ledger::Growth Ledger::reserve_in(const Entry& fresh, std::uint64_t bytes, std::uint64_t step) {
  // The lock is held while the account is asked: two threads must not both take what the whole has left.
  const Locked locked(*this);
  Entry* entry = table_.find(fresh.space, fresh.address);
  if (entry == nullptr) {
    if (!table_.insert(fresh)) return {};
    entry = table_.find(fresh.space, fresh.address);
  }
  Growth growth;
  growth.before = entry->charged;
  const std::uint64_t more = charge_for(*entry, bytes, step);
  growth.granted = more == 0 || account_.charge(entry->device, more);
  if (growth.granted) {
    entry->charged += more;
    entry->bytes += bytes;
  }
  growth.after = entry->charged;
  return growth;
}

bool Ledger::has_room_in_pool(std::uint64_t pool, unsigned device, std::uint64_t bytes) {
  const Locked locked(*this);
  const Entry* const entry = table_.find(Space::pool, pool);
  return account_.has_room(device, charge_for(entry != nullptr ? *entry : Entry{}, bytes, pool_step_));
}

void Ledger::cancel_in(Space space, std::uint64_t address, std::uint64_t bytes) {
  const Locked locked(*this);
  Entry* const entry = table_.find(space, address);
  if (entry == nullptr) return;
  entry->bytes -= bytes < entry->bytes ? bytes : entry->bytes;
  const std::uint64_t spare = entry->charged - entry->bytes;
  const std::uint64_t back = spare < bytes ? spare : bytes;
  entry->charged -= back;
  account_.discharge(entry->device, back);
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
