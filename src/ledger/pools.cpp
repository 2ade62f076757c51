// Pools: charged for the most that was in use since the driver last said that a pool gave memory back.
#include "ledger/ledger.h"
#include "ledger/ledger_lock.h"

namespace headroom::ledger {

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

}  // namespace headroom::ledger
