// A list that only grows, in pages that never move: what a snapshot of a gigabyte comes to is neither copied
// nor there twice while it grows, as it would be in a vector that doubles. Elements are plain data and are
// not initialised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
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
    if (size_ == room()) add_page();
    (*this)[size_++] = item;
  }

  // Room for `count` neighbours, at most a page of them; the rest of a page where they do not fit stays
  // unused.
  std::span<Item> add_run(std::size_t count) {
    if (count > room() - size_) {
      size_ = room();
      add_page();
    }
    const std::span<Item> run(&(*this)[size_], count);
    size_ += count;
    return run;
  }
  // Takes the last `count` off again.
  void remove(std::size_t count) { size_ -= count; }
  // Of neighbours that add_run() gave.
  std::span<const Item> run(std::size_t first, std::size_t count) const { return {&(*this)[first], count}; }

 private:
  std::size_t room() const { return pages_.size() * kPageItems; }
  void add_page() { pages_.push_back(std::make_unique_for_overwrite<Item[]>(kPageItems)); }

  std::vector<std::unique_ptr<Item[]>> pages_;
  std::size_t size_ = 0;
};

}  // namespace headroom::snapshot
