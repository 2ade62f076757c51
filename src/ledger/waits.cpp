// Waits: how pending frees and unmaps end. The driver does not report when a stream-ordered free has run, so
// the memory stays charged until a synchronization of its context's streams has completed.
//
// begin_wait() marks all pending entries of the context, finish_wait() discharges the marked ones.
#include "ledger/ledger.h"
#include "ledger/ledger_internal.h"

namespace headroom::ledger {
namespace {

bool is_pending(const Entry& entry) {
  if (entry.type == EntryType::pending_free) return true;
  if (entry.type == EntryType::physical) return entry.context != 0 || entry.references == 0;
  return is_destroyed(entry) && entry.bytes == 0;
}

bool waits_for(const Entry& entry, std::uint64_t context) {
  return entry.context == context || entry.context == 0;
}

// The first wait that completes this entry; 0: none has begun.
std::uint64_t& wait_of(Entry& entry) {
  if (entry.type == EntryType::pool) return entry.of.pool.wait;
  return entry.type == EntryType::physical ? entry.of.physical.unmap_wait : entry.of.pending_free.wait;
}

}  // namespace

// A wait marks memory that was freed before it began. So any wait that began at the same time or later may
// discharge that memory; a wait that began earlier may not.
std::uint64_t Ledger::begin_wait(std::uint64_t context) {
  const Locked locked(lock_);
  ++last_wait_;
  table_.for_each([&](Entry& entry) {
    if (is_pending(entry) && wait_of(entry) == 0 && waits_for(entry, context)) wait_of(entry) = last_wait_;
  });
  // For live pools: counts the bytes freed from now on until this wait ends, because it does not complete
  // those.
  const auto is_to_count = [&](const Entry& entry) {
    return entry.type == EntryType::pool && entry.references > 0 && entry.of.pool.pending_bytes > 0 &&
           waits_for(entry, context) && table_.find(EntryType::pool_wait, entry.address) == nullptr;
  };
  std::size_t place = 0;
  while (const Entry* const pool = table_.find_from(place, is_to_count)) {
    Entry wait;
    wait.type = EntryType::pool_wait;
    wait.address = pool->address;
    wait.of.pool_wait.wait = last_wait_;
    if (!table_.insert(wait)) break;
    ++pool_waits_;
    place = 0;  // the table may have grown
  }
  return last_wait_;
}

void Ledger::finish_wait(std::uint64_t context, std::uint64_t wait) {
  const Locked locked(lock_);
  const auto is_complete = [&](Entry& entry) {
    return is_pending(entry) && wait_of(entry) != 0 && wait_of(entry) <= wait && waits_for(entry, context);
  };
  std::uint64_t charged[kMaxDevices] = {};
  std::size_t place = 0;
  while (Entry* const entry = table_.find_from(place, is_complete)) {
    if (entry->type == EntryType::physical && entry->references > 0) {  // it has other references
      if (entry->context != 0) --pending_unmaps_;
      entry->context = entry->of.physical.unmap_wait = 0;
      continue;
    }
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
  end_pool_waits(wait, [](Entry& pool, std::uint64_t freed_since) {
    std::uint64_t& pending = pool.of.pool.pending_bytes;
    if (freed_since < pending) pending = freed_since;
    if (pending == 0) pool.context = 0;
  });
}

void Ledger::cancel_wait(std::uint64_t wait) {
  const Locked locked(lock_);
  end_pool_waits(wait, [](Entry&, std::uint64_t) {});
}

template <class Settle>
void Ledger::end_pool_waits(std::uint64_t wait, const Settle& settle) {
  std::size_t place = 0;
  Entry ended;
  while (table_.find_from(place, [&](const Entry& one) {
    return one.type == EntryType::pool_wait && one.of.pool_wait.wait == wait;
  }) != nullptr) {
    table_.remove_at(place, ended);
    --pool_waits_;
    if (Entry* const pool = table_.find(EntryType::pool, ended.address))
      settle(*pool, ended.of.pool_wait.freed_bytes);
  }
}

}  // namespace headroom::ledger
