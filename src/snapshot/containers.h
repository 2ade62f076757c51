// A list that only grows, in pages that never move. A vector doubles and copies; for a snapshot of a gigabyte
// that would need twice the memory for a while. Elements are plain data and are not initialized.
#pragma once

#include <compare>
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

#include "types/address_map.h"

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
