// Values by address: open addressing with linear probing at a load of at most one half, and deletion by
// shifting back what follows, as attribution/live_map.h has it and says why.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace headroom {

template <class Value>
class AddressMap {
 public:
  AddressMap() : slots_(kFirstSlots), shift_(64 - std::countr_zero(kFirstSlots)) {}

  std::size_t size() const { return size_; }

  // Null if there is none; good until the next change of the map.
  Value* find(std::uint64_t address) {
    for (std::size_t at = home_of(address); slots_[at].used; at = next(at))
      if (slots_[at].address == address) return &slots_[at].value;
    return nullptr;
  }
  const Value* find(std::uint64_t address) const { return const_cast<AddressMap*>(this)->find(address); }

  // Puts the value in the place of the one that is there, if any.
  void set(std::uint64_t address, const Value& value) {
    std::size_t at = home_of(address);
    while (slots_[at].used && slots_[at].address != address) at = next(at);
    const bool is_new = !slots_[at].used;
    slots_[at] = {address, value, true};
    if (is_new && ++size_ * 2 > slots_.size()) grow();
  }

  bool erase(std::uint64_t address) {
    std::size_t at = home_of(address);
    while (slots_[at].used && slots_[at].address != address) at = next(at);
    if (!slots_[at].used) return false;
    close_gap(at);
    --size_;
    return true;
  }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Slot& slot : slots_)
      if (slot.used) visit(slot.address, slot.value);
  }

 private:
  struct Slot {
    std::uint64_t address = 0;
    Value value{};
    bool used = false;
  };
  static constexpr std::size_t kFirstSlots = 1 << 10;

  // Fibonacci hashing; blocks of PyTorch begin at multiples of 512.
  std::size_t home_of(std::uint64_t address) const {
    return static_cast<std::size_t>(address * 0x9e3779b97f4a7c15U >> shift_);
  }
  std::size_t next(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }

  // Moves each entry of the run after `hole` back into it, if its home does not lie behind the hole.
  void close_gap(std::size_t hole) {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = next(hole); slots_[at].used; at = next(at)) {
      const std::size_t home = home_of(slots_[at].address);
      if (((at - home) & mask) < ((at - hole) & mask)) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].used = false;
  }

  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    --shift_;
    for (const Slot& slot : old) {
      if (!slot.used) continue;
      std::size_t at = home_of(slot.address);
      while (slots_[at].used) at = next(at);
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
  int shift_;
};

}  // namespace headroom
