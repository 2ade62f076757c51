#include "ledger/allocation_table.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace headroom::ledger {
namespace {

constexpr std::size_t kFirstSlots = 1 << 10;

Entry* map_slots(std::size_t count) {
  const long memory = ::syscall(SYS_mmap, nullptr, count * sizeof(Entry), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, long{0});
  return memory == -1 ? nullptr : reinterpret_cast<Entry*>(memory);
}

}  // namespace

Entry* AllocationTable::find(EntryType type, std::uint64_t address) {
  if (capacity_ == 0 || address == 0) return nullptr;
  for (std::size_t at = hash_of(type, address) & (capacity_ - 1); slots_[at].address != 0; at = next(at))
    if (slots_[at].address == address && slots_[at].type == type) return &slots_[at];
  return nullptr;
}

bool AllocationTable::insert(const Entry& entry) {
  if (entry.address == 0) return false;
  if (Entry* there = find(entry.type, entry.address)) {
    *there = entry;
    return true;
  }
  if ((size_ + 1) * 2 > capacity_ && !grow()) return false;
  std::size_t at = home_of(entry);
  while (slots_[at].address != 0) at = next(at);
  slots_[at] = entry;
  ++size_;
  return true;
}

bool AllocationTable::remove(EntryType type, std::uint64_t address, Entry& entry) {
  Entry* const there = find(type, address);
  if (there == nullptr) return false;
  remove_at(static_cast<std::size_t>(there - slots_), entry);
  return true;
}

// Fills the hole with the next entry of the run that may lie there, and repeats that for the new hole. An
// entry may not lie before its home position.
void AllocationTable::close_gap(std::size_t hole) {
  const std::size_t mask = capacity_ - 1;
  for (std::size_t at = next(hole); slots_[at].address != 0; at = next(at)) {
    const std::size_t home = home_of(slots_[at]);
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole].address = 0;
}

bool AllocationTable::grow() {
  const std::size_t old_capacity = capacity_;
  Entry* const old = slots_;
  const std::size_t capacity = old_capacity == 0 ? kFirstSlots : old_capacity * 2;
  Entry* const fresh = map_slots(capacity);
  if (fresh == nullptr) return false;
  slots_ = fresh;
  capacity_ = capacity;
  for (std::size_t i = 0; i < old_capacity; ++i) {
    if (old[i].address == 0) continue;
    std::size_t at = home_of(old[i]);
    while (slots_[at].address != 0) at = next(at);
    slots_[at] = old[i];
  }
  if (old != nullptr) ::syscall(SYS_munmap, old, old_capacity * sizeof(Entry));
  return true;
}

void AllocationTable::clear() {
  if (slots_ != nullptr) ::syscall(SYS_munmap, slots_, capacity_ * sizeof(Entry));
  slots_ = nullptr;
  capacity_ = size_ = 0;
}

}  // namespace headroom::ledger
