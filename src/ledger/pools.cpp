// Pools. After each call a pool's charge is set to the figure that the driver reports. Before a call, a pool
// is charged for the steps in which it was seen to grow.
//
// Under a limit, the driver lock (preload/device_hooks.h) admits one call at a time to the driver's pools and
// graphs. So the driver's figure is current when it is used here.

#include <numeric>

#include "ledger/ledger.h"
#include "ledger/ledger_internal.h"

namespace headroom::ledger {

namespace {

// The bit of a destroyed pool's number. No handle has it.
constexpr std::uint64_t kDestroyed = std::uint64_t{1} << 62;

Entry pool_of(std::uint64_t pool, unsigned device) {
  return {.address = pool,
          .device = static_cast<std::uint16_t>(device),
          .type = EntryType::pool,
          .kind = DeviceMemoryKind::pool_reserved};
}

// Returns the additional charge that a pool needs to hold so many more bytes.
std::uint64_t charge_to_fit(const Entry& pool, std::uint64_t bytes, std::uint64_t step) {
  // Pending frees cannot be counted on: while another stream uses that memory, the driver allocates more from
  // the device instead.
  const std::uint64_t free = pool.charged - pool.bytes;
  const std::uint64_t spare = free - (pool.of.pool.pending_bytes < free ? pool.of.pool.pending_bytes : free);
  if (bytes <= spare) return 0;
  const std::uint64_t more = bytes - spare;
  std::uint64_t all = 0;
  if (step <= 1 || __builtin_add_overflow(pool.charged, more, &all) || all % step == 0) return more;
  return __builtin_add_overflow(more, step - all % step, &all) ? more : all;
}

}  // namespace

Ledger::PoolGrant Ledger::try_reserve_in_pool(std::uint64_t pool, unsigned device, std::uint64_t bytes) {
  // Keeps the lock while it charges the account: two threads must not both use the pool's spare memory.
  const Locked locked(lock_);
  Entry* const entry = find_or_insert(pool_of(pool, device));
  if (entry == nullptr) return {false, bytes};
  const std::uint64_t more = charge_to_fit(*entry, bytes, pool_step_.load());
  if (more > 0 && !account_.reserve(entry->device, more)) return {false, more};
  // Memory that the pool has beyond the limit must not be used: a request was refused for it.
  if (more == 0 && pools_exceed_limit_ && !account_.would_fit(entry->device, 0)) return {false, 0};
  entry->charged += more;
  entry->bytes += bytes;
  return {true, more};
}

bool Ledger::reserve_in_pool(std::uint64_t pool, unsigned device, std::uint64_t bytes) {
  const PoolGrant grant = try_reserve_in_pool(pool, device, bytes);
  if (!grant.is_granted) refuse(device, DeviceMemoryKind::pool, bytes, grant.charged);
  return grant.is_granted;
}

void Ledger::commit_in_pool(const Entry& entry, const PoolGrant& grant) {
  insert_or_replace(entry);
  if (grant.charged > 0) account_.note_peaks(entry.device);
}

// The driver failed to allocate, so the pool did not grow.
void Ledger::cancel_in_pool(std::uint64_t pool, std::uint64_t bytes) {
  const Locked locked(lock_);
  Entry* const entry = table_.find(EntryType::pool, pool);
  if (entry == nullptr) return;
  entry->bytes -= bytes < entry->bytes ? bytes : entry->bytes;
  // The pool still has what the driver last reported.
  const std::uint64_t reported = entry->of.pool.reported_bytes;
  const std::uint64_t kept = entry->bytes > reported ? entry->bytes : reported;
  const std::uint64_t spare = entry->charged > kept ? entry->charged - kept : 0;
  const std::uint64_t back = spare < bytes ? spare : bytes;
  entry->charged -= back;
  account_.discharge(entry->device, back);
}

void Ledger::cancel_allocated_in_pool(std::uint64_t pool, std::uint64_t bytes, std::uint64_t stream_context) {
  const Locked locked(lock_);
  Entry* const entry = table_.find(EntryType::pool, pool);
  if (entry == nullptr) return;
  entry->bytes -= bytes < entry->bytes ? bytes : entry->bytes;
  note_pending_free(*entry, bytes, stream_context);
}

Ledger::Settled Ledger::settle_pool(std::uint64_t pool, std::uint64_t reserved_bytes, bool within_limit) {
  const Locked locked(lock_);
  Entry* const entry = table_.find(EntryType::pool, pool);
  if (entry == nullptr) return {};
  Settled settled;
  PoolDetails& details = entry->of.pool;
  settled.is_new = details.reported_bytes != reserved_bytes;
  if (reserved_bytes > details.reported_bytes)
    pool_step_ = std::gcd(pool_step_.load(), reserved_bytes - details.reported_bytes);
  details.reported_bytes = reserved_bytes;
  const std::uint64_t kept = entry->bytes > reserved_bytes ? entry->bytes : reserved_bytes;
  // The figure includes all pending frees. A free in progress may already have lowered the driver's figure.
  std::uint64_t being_freed = 0;
  if (pool_frees_in_progress_ > 0 && details.pending_bytes > kept - entry->bytes)
    table_.for_each([&](const Entry& one) {
      if (one.type == EntryType::pool_free_in_progress && one.owner == pool) being_freed += one.bytes;
    });
  const std::uint64_t least_in_use = entry->bytes - (being_freed < entry->bytes ? being_freed : entry->bytes);
  if (details.pending_bytes > kept - least_in_use) details.pending_bytes = kept - least_in_use;
  if (details.pending_bytes == 0) entry->context = 0;  // nothing is pending
  if (kept < entry->charged) {
    account_.discharge(entry->device, entry->charged - kept);
  } else if (kept > entry->charged) {
    const std::uint64_t more = kept - entry->charged;
    settled.fits = account_.charge(entry->device, more);
    if (!settled.fits && within_limit) return settled;
    if (!settled.fits) account_.force_charge(entry->device, more);
    pools_exceed_limit_ = pools_exceed_limit_ || !settled.fits;
  }
  entry->charged = kept;
  return settled;
}

void Ledger::adopt_pool(std::uint64_t pool, unsigned device, bool is_new) {
  if (is_new) destroy_pool(pool);
  const Locked locked(lock_);
  find_or_insert(pool_of(pool, device));
}

void Ledger::destroy_pool(std::uint64_t pool) {
  const Locked locked(lock_);
  Entry gone;
  if (!table_.remove(EntryType::pool, pool, gone) || gone.charged == 0) return;
  // Its live allocations continue, as part of the destroyed pool's entry.
  gone.references = 0;
  gone.of.pool.wait = 0;
  gone.address = kDestroyed | ++last_physical_;
  table_.for_each([&](Entry& one) {
    if (one.kind == DeviceMemoryKind::pool && one.owner == pool &&
        (one.type == EntryType::pointer || one.type == EntryType::pool_free_in_progress))
      one.owner = gone.address;
  });
  // If no memory is available for the entry, it stays charged.
  if (table_.insert(gone)) ++pending_frees_;
}

std::uint64_t Ledger::pool_to_settle(unsigned device, std::size_t& place) {
  const Locked locked(lock_);
  const Entry* const found = table_.find_from(place, [&](const Entry& entry) {
    return entry.type == EntryType::pool && entry.device == device && entry.charged > entry.bytes &&
           entry.references > 0;
  });
  return found != nullptr ? found->address : 0;
}

bool Ledger::device_of_pool(std::uint64_t pool, unsigned& device) {
  const Locked locked(lock_);
  const Entry* const entry = table_.find(EntryType::pool, pool);
  if (entry != nullptr) device = entry->device;
  return entry != nullptr;
}

bool Ledger::is_pool(std::uint64_t pool) {
  const Locked locked(lock_);
  const Entry* const entry = table_.find(EntryType::pool, pool);
  return entry != nullptr && !is_destroyed(*entry);
}

std::uint64_t Ledger::reserved_by_pools(unsigned device) {
  const Locked locked(lock_);
  std::uint64_t bytes = 0;
  table_.for_each([&](const Entry& entry) {
    if (entry.type == EntryType::pool && entry.device == device)
      bytes += is_destroyed(entry) ? entry.charged : entry.of.pool.reported_bytes;
  });
  return bytes;
}

// Waits: how pending frees end. The driver does not report when a stream-ordered free has run, so
// the memory stays charged until a synchronization of its context's streams has completed.
//
// begin_wait() marks all pending entries of the context, finish_wait() discharges the marked ones.

namespace {

bool is_pending(const Entry& entry) {
  if (entry.type == EntryType::pending_free) return true;
  return is_destroyed(entry) && entry.bytes == 0;
}

bool is_live_pool(const Entry& entry) { return entry.type == EntryType::pool && entry.references > 0; }

bool waits_for(const Entry& entry, std::uint64_t context) {
  return entry.context == context || entry.context == 0;
}

// The first wait that completes this entry; 0: none has begun.
std::uint64_t& wait_of(Entry& entry) {
  return entry.type == EntryType::pool ? entry.of.pool.wait : entry.of.pending_free.wait;
}

}  // namespace

// A wait marks memory that was freed before it began. So any wait that began at the same time or later may
// discharge that memory; a wait that began earlier may not.
std::uint64_t Ledger::begin_wait(std::uint64_t context) {
  const Locked locked(lock_);
  ++last_wait_;
  table_.for_each([&](Entry& entry) {
    if (!waits_for(entry, context)) return;
    if (is_pending(entry) && wait_of(entry) == 0) wait_of(entry) = last_wait_;
    // For a live pool, counts the bytes freed from now on, because this wait does not complete those.
    PoolDetails& pool = entry.of.pool;
    if (is_live_pool(entry) && pool.pending_bytes > 0 && pool.wait == 0) {
      pool.wait = last_wait_;
      pool.freed_since_wait = 0;
    }
  });
  return last_wait_;
}

void Ledger::finish_wait(std::uint64_t context, std::uint64_t wait) {
  const Locked locked(lock_);
  const auto is_complete = [&](Entry& entry) {
    return is_pending(entry) && wait_of(entry) != 0 && wait_of(entry) <= wait && waits_for(entry, context);
  };
  std::uint64_t charged[kMaxDevices] = {};
  std::size_t place = 0;
  while (table_.find_from(place, is_complete) != nullptr) {
    Entry gone;
    table_.remove_at(place, gone);
    const std::size_t others = table_.size();
    charged[gone.device % kMaxDevices] +=
        gone.type == EntryType::pending_free ? remove_from_granule(gone) : gone.charged;
    --pending_frees_;
    if (table_.size() != others) place = 0;  // its granule was removed, too, which may have moved entries
  }
  for (unsigned device = 0; device < kMaxDevices; ++device)
    if (charged[device] != 0) account_.discharge(device, charged[device]);
  end_pool_waits(wait, true);
}

void Ledger::cancel_wait(std::uint64_t wait) {
  const Locked locked(lock_);
  end_pool_waits(wait, false);
}

void Ledger::end_pool_waits(std::uint64_t wait, bool completes_frees) {
  table_.for_each([&](Entry& entry) {
    PoolDetails& pool = entry.of.pool;
    if (!is_live_pool(entry) || pool.wait != wait) return;
    pool.wait = 0;
    if (!completes_frees) return;
    pool.pending_bytes = smaller(pool.pending_bytes, pool.freed_since_wait);
    if (pool.pending_bytes == 0) entry.context = 0;
  });
}

}  // namespace headroom::ledger
