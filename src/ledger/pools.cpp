// Pools: charged for what they have of the device, as the driver tells it after each call, and in the steps
// in which it was seen to grow before a call.
#include <numeric>

#include "ledger/ledger.h"
#include "ledger/ledger_lock.h"

namespace headroom::ledger {

bool Ledger::reserve_in_pool(std::uint64_t pool, unsigned device, std::uint64_t bytes) {
  Entry whole;
  whole.space = Space::pool;
  whole.address = pool;
  whole.device = static_cast<std::uint16_t>(device);
  whole.kind = DeviceMemoryKind::pool_reserved;
  const bool granted = reserve_in(whole, bytes, pool_step_.load()).granted;
  if (!granted) refuse(device, DeviceMemoryKind::pool, bytes);
  return granted;
}

void Ledger::cancel_in_pool(std::uint64_t pool, std::uint64_t bytes) { cancel_in(Space::pool, pool, bytes); }

Ledger::Settled Ledger::settle_pool(std::uint64_t pool, std::uint64_t reserved_bytes, bool keeps_limit) {
  const Locked locked(*this);
  Entry* const entry = table_.find(Space::pool, pool);
  if (entry == nullptr) return {};
  Settled settled;
  settled.is_new = entry->link != reserved_bytes;
  if (reserved_bytes > entry->link) pool_step_ = std::gcd(pool_step_.load(), reserved_bytes - entry->link);
  entry->link = reserved_bytes;  // of a pool: the figure
  const std::uint64_t kept = entry->bytes > reserved_bytes ? entry->bytes : reserved_bytes;
  if (kept < entry->charged) {
    account_.discharge(entry->device, entry->charged - kept);
  } else if (kept > entry->charged) {
    const std::uint64_t more = kept - entry->charged;
    settled.fits = account_.charge(entry->device, more);
    if (!settled.fits && keeps_limit) return settled;
    if (!settled.fits) account_.charge_anyway(entry->device, more);
  }
  entry->charged = kept;
  return settled;
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
  if (entry->bytes > 0) return;  // the driver keeps the whole until its last allocation is freed
  Entry gone;
  table_.take(Space::pool, pool, gone);
  account_.discharge(gone.device, gone.charged);
}

std::uint64_t Ledger::pool_to_settle(unsigned device, std::size_t& place) {
  const Locked locked(*this);
  const Entry* const found = table_.find_from(place, [&](const Entry& entry) {
    return entry.space == Space::pool && entry.device == device && entry.charged > entry.bytes &&
           entry.references > 0;
  });
  return found != nullptr ? found->address : 0;
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
