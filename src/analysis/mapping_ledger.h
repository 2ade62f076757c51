// The memory that a program mapped itself: which ranges are mapped, so that unmapping a part or mapping over
// something counts right. Mappings are rare, so a tree of ranges is fast enough.
#pragma once

#include <cstdint>
#include <map>

namespace headroom::analysis {

class MappingLedger {
 public:
  explicit MappingLedger(std::uint64_t page_bytes);

  void map(std::uint64_t address, std::uint64_t size);
  // The parts of the range that were not mapped are ignored.
  void unmap(std::uint64_t address, std::uint64_t size);
  std::int64_t mapped_bytes() const { return static_cast<std::int64_t>(mapped_); }

 private:
  std::uint64_t end_of(std::uint64_t address, std::uint64_t size) const;

  std::uint64_t page_bytes_;
  std::uint64_t mapped_ = 0;
  std::map<std::uint64_t, std::uint64_t> ends_;  // by beginning; ranges do not overlap
};

}  // namespace headroom::analysis
