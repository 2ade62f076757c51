// Pools: charged for the most that was in use since the driver last said that a pool gave memory back.
#include "ledger/ledger.h"
#include "ledger/ledger_lock.h"

namespace headroom::ledger {

bool Ledger::reserve_in_pool(std::uint64_t pool, unsigned device, std::uint64_t bytes) {
  Entry whole;
  whole.space = Space::pool;
  whole.address = pool;
  whole.device = static_cast<std::uint16_t>(device);
  whole.kind = DeviceMemoryKind::pool_reserved;
  const bool granted = reserve_in(whole, bytes).granted;
  if (!granted) refuse(device, DeviceMemoryKind::pool, bytes);
  return granted;
}

void Ledger::cancel_in_pool(std::uint64_t pool, std::uint64_t bytes) { cancel_in(Space::pool, pool, bytes); }

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

void Ledger::adopt_pool(std::uint64_t pool, unsigned device) {
  const Locked locked(*this);
  if (table_.find(Space::pool, pool) != nullptr) return;
  Entry entry;
  entry.space = Space::pool;
  entry.address = pool;
  entry.device = static_cast<std::uint16_t>(device);
  entry.kind = DeviceMemoryKind::pool_reserved;
  table_.insert(entry);
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
