// A list that only grows, in pages that never move. A vector doubles and copies; for a snapshot of a gigabyte
// that would need twice the memory for a while. Elements are plain data and are not initialized.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace headroom::snapshot {

template <class Item>
class PagedArray {
  static_assert(std::is_trivially_copyable_v<Item>);

 public:
  static constexpr std::size_t kPageItems = (std::size_t{1} << 19) / sizeof(Item);  // half a MiB

  std::size_t size() const { return size_; }
  std::size_t bytes() const { return pages_.size() * kPageItems * sizeof(Item); }

  Item& operator[](std::size_t index) { return pages_[index / kPageItems][index % kPageItems]; }
  const Item& operator[](std::size_t index) const { return pages_[index / kPageItems][index % kPageItems]; }

  void push_back(const Item& item) {
    if (size_ == capacity()) add_page();
    (*this)[size_++] = item;
  }

  // Adds `count` adjacent items, at most one page. If they do not fit the current page, its rest stays
  // unused.
  std::span<Item> add_run(std::size_t count) {
    if (count > capacity() - size_) {
      size_ = capacity();
      add_page();
    }
    const std::span<Item> run(&(*this)[size_], count);
    size_ += count;
    return run;
  }
  // Removes the last `count` items.
  void remove(std::size_t count) { size_ -= count; }
  // Adjacent items from add_run().
  std::span<const Item> run(std::size_t first, std::size_t count) const { return {&(*this)[first], count}; }

 private:
  std::size_t capacity() const { return pages_.size() * kPageItems; }
  void add_page() { pages_.push_back(std::make_unique_for_overwrite<Item[]>(kPageItems)); }

  std::vector<std::unique_ptr<Item[]>> pages_;
  std::size_t size_ = 0;
};

// The distinct texts of a snapshot, numbered in order of first use. A trace of millions of entries has some
// thousand distinct texts (keys, actions, functions, files).
struct StringId {
  std::uint32_t index = 0;  // 0 is the empty text
  friend auto operator<=>(const StringId&, const StringId&) = default;
};

class StringTable {
 public:
  StringTable() { intern(""); }
  StringTable(StringTable&&) = default;
  StringTable& operator=(StringTable&&) = default;

  StringId intern(std::string_view text) {
    if (const auto known = by_text_.find(text); known != by_text_.end()) return {known->second};
    const auto index = static_cast<std::uint32_t>(texts_.size());
    by_text_.emplace(texts_.emplace_back(text), index);
    bytes_ += text.size() + kOverhead;
    return {index};
  }
  std::string_view operator[](StringId id) const { return texts_[id.index]; }
  std::size_t size() const { return texts_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kOverhead = 96;  // the string object, its node in the table and its bucket
  std::deque<std::string> texts_;               // elements never move
  std::unordered_map<std::string_view, std::uint32_t> by_text_;
  std::size_t bytes_ = 0;
};

// Values by address: open addressing with linear probing at a load of at most one half, and deletion by
// shifting back what follows, as live_map.h has it and says why.
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

// Hash functions for untrusted data. A hostile file must not be able to create long hash chains. So hashes
// use a random seed, and a search stops after kMostOfAHash entries of a chain.
inline std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

inline std::uint64_t hash_seed() {
  static const std::uint64_t seed = [] {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
  }();
  return seed;
}

// Words that differ only in the highest bit collide with any seed. An entry that is not found among this many
// is stored again, which costs memory but no time.
inline constexpr std::size_t kMostOfAHash = 64;

}  // namespace headroom::snapshot
