// A list that only grows, in pages that never move. A vector doubles and copies; for a snapshot of a gigabyte
// that would need twice the memory for a while. Elements are plain data and are not initialized.
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

}  // namespace headroom::snapshot
