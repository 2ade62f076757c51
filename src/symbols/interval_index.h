// Finds the range that contains an address. Ranges may nest or overlap: an inlined function inside another,
// or two symbols at one place. The index first flattens them into pieces that do not overlap, so a lookup is
// one binary search, however deep the nesting is. (Checking each range of a large unit takes about a
// millisecond per address.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

namespace headroom::symbols {

class IntervalIndex {
 public:
  // Adds the range [low, high) for `id`. If ranges overlap, the range that was added later wins.
  void add(std::uint64_t low, std::uint64_t high, std::uint32_t id) {
    if (low < high) intervals_.push_back({low, high, static_cast<std::uint32_t>(intervals_.size()), id});
  }

  // Call this once, after the last add().
  void build() {
    std::ranges::sort(intervals_, {}, &Interval::low);
    // The ranges that contain `position`, with the winner on top. A range below the top that has ended is
    // removed when it reaches the top.
    std::priority_queue<Interval, std::vector<Interval>, EarlierAdded> open;
    std::size_t next = 0;
    std::uint64_t position = 0;
    while (next < intervals_.size() || !open.empty()) {
      if (open.empty()) position = std::max(position, intervals_[next].low);
      while (next < intervals_.size() && intervals_[next].low <= position) open.push(intervals_[next++]);
      while (!open.empty() && open.top().high <= position) open.pop();
      if (open.empty()) {
        append(position, kNone);
        continue;
      }
      append(position, open.top().id);
      const std::uint64_t end = open.top().high;
      position = next < intervals_.size() ? std::min(end, intervals_[next].low) : end;
    }
    intervals_ = {};
    pieces_.shrink_to_fit();
  }

  std::optional<std::uint32_t> find(std::uint64_t address) const {
    const auto after = std::ranges::upper_bound(pieces_, address, {}, &Piece::low);
    if (after == pieces_.begin() || std::prev(after)->id == kNone) return std::nullopt;
    return std::prev(after)->id;
  }

  std::size_t bytes() const { return pieces_.size() * sizeof(Piece); }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Interval {
    std::uint64_t low, high;
    std::uint32_t order, id;
  };
  struct Piece {
    std::uint64_t low;
    std::uint32_t id;
  };
  struct EarlierAdded {
    bool operator()(const Interval& a, const Interval& b) const { return a.order < b.order; }
  };

  void append(std::uint64_t low, std::uint32_t id) {
    if (!pieces_.empty() && pieces_.back().low == low) pieces_.pop_back();
    if (pieces_.empty() ? id != kNone : pieces_.back().id != id) pieces_.push_back({low, id});
  }

  std::vector<Interval> intervals_;
  std::vector<Piece> pieces_;
};

}  // namespace headroom::symbols
