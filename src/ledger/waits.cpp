// What was given back in the order of a stream, and of which the driver does not tell when it goes: it stays
// charged until the streams of that context have been waited for.
#include "ledger/ledger.h"
#include "ledger/ledger_lock.h"

namespace headroom::ledger {
namespace {

bool is_waiting(const Entry& entry) {
  if (entry.space == Space::leaving) return true;
  if (entry.space == Space::physical) return entry.context != 0 || entry.references == 0;
  return is_destroyed(entry) && entry.bytes == 0;
}

bool goes_with(const Entry& entry, std::uint64_t context) {
  return entry.context == context || entry.context == 0;
}

// The wait that it goes with; 0: none has begun.
std::uint64_t& wait_of(Entry& entry) { return entry.space == Space::pool ? entry.link : entry.pending; }

}  // namespace

// A wait begins after what it marks was freed, so whoever began no earlier may finish for it; one that began
// before the last was freed may not.
std::uint64_t Ledger::begin_wait(std::uint64_t context) {
  const Locked locked(*this);
  ++last_wait_;
  table_.for_each([&](Entry& entry) {
    if (is_waiting(entry) && wait_of(entry) == 0 && goes_with(entry, context)) wait_of(entry) = last_wait_;
  });
  // Of a pool that lives what is freed from now on is counted, until this wait ends.
  const auto is_to_count = [&](const Entry& entry) {
    return entry.space == Space::pool && entry.references > 0 && entry.pending > 0 &&
           goes_with(entry, context) && table_.find(Space::pool_wait, entry.address) == nullptr;
  };
  std::size_t place = 0;
  while (const Entry* const pool = table_.find_from(place, is_to_count)) {
    Entry wait;
    wait.space = Space::pool_wait;
    wait.address = pool->address;
    wait.link = last_wait_;
    if (!table_.insert(wait)) break;
    ++pool_waits_;
    place = 0;  // the table may have grown
  }
  return last_wait_;
}

void Ledger::finish_wait(std::uint64_t context, std::uint64_t wait) {
  const Locked locked(*this);
  const auto has_come = [&](Entry& entry) {
    return is_waiting(entry) && wait_of(entry) != 0 && wait_of(entry) <= wait && goes_with(entry, context);
  };
  std::uint64_t charged[kMostDevices] = {};
  std::size_t place = 0;
  while (Entry* const entry = table_.find_from(place, has_come)) {
    if (entry->space == Space::physical && entry->references > 0) {  // somebody has it still
      if (entry->context != 0) --unmapped_in_order_;
      entry->context = entry->pending = 0;
      continue;
    }
    Entry gone;
    table_.take_at(place, gone);
    const std::size_t others = table_.size();
    charged[gone.device % kMostDevices] +=
        gone.space == Space::leaving ? charge_that_goes_with(gone) : gone.charged;
    --leaving_in_order_;
    if (table_.size() != others) place = 0;  // its granule went, too, which may have moved others
  }
  for (unsigned device = 0; device < kMostDevices; ++device)
    if (charged[device] != 0) account_.discharge(device, charged[device]);
  end_pool_waits(wait, [](Entry& pool, std::uint64_t freed_since) {
    if (freed_since < pool.pending) pool.pending = freed_since;
    if (pool.pending == 0) pool.context = 0;
  });
}

void Ledger::give_up_wait(std::uint64_t wait) {
  const Locked locked(*this);
  end_pool_waits(wait, [](Entry&, std::uint64_t) {});
}

template <class Settle>
void Ledger::end_pool_waits(std::uint64_t wait, const Settle& settle) {
  std::size_t place = 0;
  Entry ended;
  while (table_.find_from(place, [&](const Entry& one) {
    return one.space == Space::pool_wait && one.link == wait;
  }) != nullptr) {
    table_.take_at(place, ended);
    --pool_waits_;
    if (Entry* const pool = table_.find(Space::pool, ended.address)) settle(*pool, ended.pending);
  }
}

}  // namespace headroom::ledger
