// The memory that a program mapped itself: the mapped ranges and their owners. So unmapping a part, or
// mapping over a range, counts correctly for each owner. Addresses reserved without access are not memory
// until the program makes them accessible. Mappings are rare, so a tree of ranges is fast enough. Memory
// grows with the number of mapped ranges and of owners.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "attribution/layer_tree.h"
#include "attribution/live_map.h"
#include "types/memory_event.h"

namespace headroom::attribution {

// The code that mapped a range. It keeps the rest when a part of the range is unmapped.
struct MappingOwner {
  StackId stack;
  LayerIndex layer = 0;
};

// Mapped bytes of one owner, in whole pages.
struct MappingShare {
  std::uint32_t index = 0;         // a StackId, or an index of RecordingAnalysis::layers
  std::int64_t at_peak_bytes = 0;  // at the peak
  std::int64_t end_bytes = 0;

  friend bool operator==(const MappingShare&, const MappingShare&) = default;
};

class MappingLedger {
 public:
  explicit MappingLedger(std::uint64_t page_bytes);

  void map(std::uint64_t address, std::uint64_t size, MappingOwner owner = {});
  // Ignores parts of the range that are not mapped.
  void unmap(std::uint64_t address, std::uint64_t size);
  void reserve(std::uint64_t address, std::uint64_t size);
  // The reserved parts of the range become mapped, by `owner`.
  void make_accessible(std::uint64_t address, std::uint64_t size, MappingOwner owner = {});
  // One of the above, by the event's kind. Ignores other events.
  void apply(const MemoryEvent& event, LayerIndex layer = 0);
  std::int64_t mapped_bytes() const { return static_cast<std::int64_t>(mapped_); }
  std::int64_t peak_bytes() const { return peak_bytes_; }
  std::int64_t reserved_bytes() const { return static_cast<std::int64_t>(reserved_); }
  std::int64_t peak_reserved_bytes() const { return peak_reserved_bytes_; }

  // Owners with mapped bytes now or at the first moment of the peak; the largest first. Each list adds up to
  // mapped_bytes() and peak_bytes().
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
  std::map<std::uint64_t, Range> ranges_;  // by start, disjoint
  Accounts stacks_, layers_;
};

// The largest first, by the larger of both figures.
void sort_shares(std::vector<MappingShare>& shares);

}  // namespace headroom::attribution
