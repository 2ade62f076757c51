#include "analysis/mapping_ledger.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace headroom::analysis {

MappingLedger::MappingLedger(std::uint64_t page_bytes)
    : page_bytes_(std::has_single_bit(page_bytes) ? page_bytes : 4096) {}

// The kernel maps whole pages.
std::uint64_t MappingLedger::end_of(std::uint64_t address, std::uint64_t size) const {
  const std::uint64_t end = (address + size + page_bytes_ - 1) & ~(page_bytes_ - 1);
  return std::max(address, end);  // what overflows is damage, and empty
}

void MappingLedger::map(std::uint64_t address, std::uint64_t size) {
  unmap(address, size);
  const std::uint64_t end = end_of(address, size);
  if (end == address) return;
  ends_[address] = end;
  mapped_ += end - address;
}

void MappingLedger::unmap(std::uint64_t address, std::uint64_t size) {
  const std::uint64_t end = end_of(address, size);
  auto it = ends_.upper_bound(address);
  if (it != ends_.begin() && std::prev(it)->second > address) --it;
  while (it != ends_.end() && it->first < end) {
    const auto [range_begin, range_end] = *it;
    mapped_ -= std::min(end, range_end) - std::max(address, range_begin);
    if (range_end > end) ends_.emplace(end, range_end);
    if (range_begin < address) {
      it->second = address;
      ++it;
    } else {
      it = ends_.erase(it);
    }
  }
}

}  // namespace headroom::analysis
