// What was given back in the order of a stream, and of which the driver does not tell when it goes: it stays
// charged until the streams of that context have been waited for.
#include "ledger/ledger.h"
#include "ledger/ledger_lock.h"

namespace headroom::ledger {
namespace {

bool is_waiting(const Entry& entry) {
  if (entry.space == Space::physical) return entry.context != 0 || entry.references == 0;
  return is_destroyed(entry) && entry.bytes == 0;
}

bool goes_with(const Entry& entry, std::uint64_t context) {
  return entry.context == context || entry.context == 0;
}

// The wait that it goes with; 0: none has begun.
std::uint64_t& wait_of(Entry& entry) { return entry.space == Space::physical ? entry.pending : entry.link; }

}  // namespace

// A wait begins after what it marks was freed, so whoever began no earlier may finish for it; one that began
// before the last was freed may not.
std::uint64_t Ledger::begin_wait(std::uint64_t context) {
  const Locked locked(*this);
  ++last_wait_;
  table_.for_each([&](Entry& entry) {
    if (is_waiting(entry) && wait_of(entry) == 0 && goes_with(entry, context)) wait_of(entry) = last_wait_;
  });
  return last_wait_;
}

void Ledger::finish_wait(std::uint64_t context, std::uint64_t wait) {
  const Locked locked(*this);
  const auto has_come = [&](Entry& entry) {
    return is_waiting(entry) && wait_of(entry) != 0 && wait_of(entry) <= wait && goes_with(entry, context);
  };
  std::size_t place = 0;
  while (Entry* const entry = table_.find_from(place, has_come)) {
    if (entry->references > 0) {  // physical memory that somebody has still
      entry->context = entry->pending = 0;
      continue;
    }
    Entry gone;
    table_.take_at(place, gone);
    account_.discharge(gone.device, gone.charged);
    --leaving_in_order_;
  }
}

}  // namespace headroom::ledger
