// The memory that a program mapped itself: which ranges are mapped and who mapped them, so that unmapping a
// part or mapping over something counts right and is taken off the right owner. Addresses that were reserved
// without access are no memory; they become it where access is given. Mappings are rare, so a tree of ranges
// is fast enough. Memory goes by the ranges that are mapped, and by the owners there ever were.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "attribution/layer_tree.h"
#include "attribution/live_counter.h"
#include "types/memory_event.h"

namespace headroom::attribution {

// Who mapped a range. It stays the owner of what is left of the range when a part of it is unmapped.
struct MappingOwner {
  StackId stack;
  LayerIndex layer = 0;
};

// What one owner has mapped, in bytes of whole pages.
struct MappingShare {
  std::uint32_t index = 0;         // of the StackId, or of RecordingAnalysis::layers
  std::int64_t at_peak_bytes = 0;  // when most was mapped
  std::int64_t end_bytes = 0;

  friend bool operator==(const MappingShare&, const MappingShare&) = default;
};

class MappingLedger {
 public:
  explicit MappingLedger(std::uint64_t page_bytes);

  void map(std::uint64_t address, std::uint64_t size, MappingOwner owner = {});
  // The parts of the range that were not mapped are ignored.
  void unmap(std::uint64_t address, std::uint64_t size);
  void reserve(std::uint64_t address, std::uint64_t size);
  // What of the range was reserved is mapped from now on, by `owner`; the rest stays as it is.
  void make_accessible(std::uint64_t address, std::uint64_t size, MappingOwner owner = {});
  // One of the above, by the event's kind; other events change nothing.
  void apply(const MemoryEvent& event, LayerIndex layer = 0);
  std::int64_t mapped_bytes() const { return static_cast<std::int64_t>(mapped_); }
  std::int64_t peak_bytes() const { return peak_bytes_; }
  std::int64_t reserved_bytes() const { return static_cast<std::int64_t>(reserved_); }
  std::int64_t peak_reserved_bytes() const { return peak_reserved_bytes_; }

  // Those that have anything now, or had at the first moment when most was mapped; the largest first. Each
  // list adds up to mapped_bytes() and peak_bytes().
  std::vector<MappingShare> by_stack() const { return shares_of(stacks_); }
  std::vector<MappingShare> by_layer() const { return shares_of(layers_); }

 private:
  struct Range {
    std::uint64_t end = 0;
    MappingOwner owner;
    bool is_reserved = false;
  };
  using Accounts = std::unordered_map<std::uint32_t, LiveCounter>;

  std::uint64_t end_of(std::uint64_t address, std::uint64_t size) const;
  void add(std::uint64_t address, const Range& range);
  void charge(const Range& range, std::int64_t bytes);
  std::vector<MappingShare> shares_of(const Accounts& accounts) const;

  std::uint64_t page_bytes_;
  std::uint64_t mapped_ = 0, reserved_ = 0;
  std::int64_t peak_bytes_ = 0, peak_reserved_bytes_ = 0;
  Mark peak_mark_ = 1;
  std::map<std::uint64_t, Range> ranges_;  // by beginning; they do not overlap
  Accounts stacks_, layers_;
};

// The largest first, by the larger of the two figures: what is left at the end may be other than the peak's.
void sort_shares(std::vector<MappingShare>& shares);

}  // namespace headroom::attribution
