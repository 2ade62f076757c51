// A map from addresses to values: the live blocks of a device, or the layers of Python modules. It uses open
// addressing in one array, at most half full. Adding and removing a block takes two lookups and no
// allocation; std::unordered_map took 80 ns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace headroom::memory_tracer {

template <class Value>
class AddressMap {
 public:
  // Returns null if the address is missing. The pointer is valid until the next change.
  Value* find(std::uint64_t address) {
    if (slots_.empty() || address == 0) return nullptr;
    for (std::size_t at = home_of(address);; at = next(at)) {
      if (slots_[at].address == address) return &slots_[at].value;
      if (slots_[at].address == 0) return nullptr;
    }
  }
  // Requires a non-zero address that is not in the map.
  void insert(std::uint64_t address, const Value& value) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    std::size_t at = home_of(address);
    while (slots_[at].address != 0) at = next(at);
    slots_[at] = {address, value};
    ++count_;
  }
  void erase(std::uint64_t address) {
    if (slots_.empty()) return;
    std::size_t hole = home_of(address);
    while (slots_[hole].address != address) {
      if (slots_[hole].address == 0) return;
      hole = next(hole);
    }
    // Move later entries up where possible, so that a search never meets a gap.
    for (std::size_t at = next(hole); slots_[at].address != 0; at = next(at)) {
      const std::size_t home = home_of(slots_[at].address);
      if (((at - home) & mask()) < ((at - hole) & mask())) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].address = 0;
    --count_;
  }
  std::size_t size() const { return count_; }
  void clear() { *this = {}; }
  // Erases entries for which `is_unwanted(value)` is true.
  template <class IsUnwanted>
  void erase_if(IsUnwanted&& is_unwanted) {
    std::vector<std::uint64_t> unwanted;
    for (const Slot& slot : slots_)
      if (slot.address != 0 && is_unwanted(slot.value)) unwanted.push_back(slot.address);
    for (const std::uint64_t address : unwanted) erase(address);
  }

 private:
  struct Slot {
    std::uint64_t address = 0;  // 0: empty
    Value value{};
  };
  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t next(std::size_t at) const { return (at + 1) & mask(); }
  std::size_t home_of(std::uint64_t address) const {
    return static_cast<std::size_t>((address * 0x9e3779b97f4a7c15) >> 32) & mask();
  }
  void grow() {
    constexpr std::size_t kSmallest = 256;
    std::vector<Slot> old(slots_.empty() ? kSmallest : 2 * slots_.size());
    std::swap(old, slots_);
    count_ = 0;
    for (const Slot& slot : old)
      if (slot.address != 0) insert(slot.address, slot.value);
  }

  std::vector<Slot> slots_;  // the size is a power of two
  std::size_t count_ = 0;
};

}  // namespace headroom::memory_tracer
