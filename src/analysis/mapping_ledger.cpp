#include "analysis/mapping_ledger.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <tuple>

namespace headroom::analysis {

MappingLedger::MappingLedger(std::uint64_t page_bytes)
    : page_bytes_(std::has_single_bit(page_bytes) ? page_bytes : 4096) {}

// The kernel maps whole pages.
std::uint64_t MappingLedger::end_of(std::uint64_t address, std::uint64_t size) const {
  const std::uint64_t end = (address + size + page_bytes_ - 1) & ~(page_bytes_ - 1);
  return std::max(address, end);  // what overflows is damage, and empty
}

void MappingLedger::charge(const MappingOwner& owner, std::int64_t bytes) {
  mapped_ += static_cast<std::uint64_t>(bytes);
  stacks_[owner.stack.index].change(bytes, 0, peak_mark_);
  layers_[owner.layer].change(bytes, 0, peak_mark_);
}

void MappingLedger::map(std::uint64_t address, std::uint64_t size, MappingOwner owner) {
  unmap(address, size);
  const std::uint64_t end = end_of(address, size);
  if (end == address) return;
  ranges_[address] = {end, owner};
  charge(owner, static_cast<std::int64_t>(end - address));
  if (mapped_bytes() <= peak_bytes_) return;
  peak_bytes_ = mapped_bytes();
  ++peak_mark_;
}

void MappingLedger::unmap(std::uint64_t address, std::uint64_t size) {
  const std::uint64_t end = end_of(address, size);
  auto it = ranges_.upper_bound(address);
  if (it != ranges_.begin() && std::prev(it)->second.end > address) --it;
  while (it != ranges_.end() && it->first < end) {
    const std::uint64_t range_begin = it->first;
    const Range range = it->second;
    charge(range.owner,
           -static_cast<std::int64_t>(std::min(end, range.end) - std::max(address, range_begin)));
    if (range.end > end) ranges_.emplace(end, range);
    if (range_begin < address) {
      it->second.end = address;
      ++it;
    } else {
      it = ranges_.erase(it);
    }
  }
}

std::vector<MappingShare> MappingLedger::shares_of(const Accounts& accounts) const {
  std::vector<MappingShare> shares;
  for (const auto& [index, account] : accounts) {
    const MappingShare share{index, account.bytes_at(peak_mark_), account.bytes};
    if (share.at_peak_bytes != 0 || share.end_bytes != 0) shares.push_back(share);
  }
  sort_shares(shares);
  return shares;
}

void sort_shares(std::vector<MappingShare>& shares) {
  std::sort(shares.begin(), shares.end(), [](const MappingShare& a, const MappingShare& b) {
    return std::tuple(std::max(b.at_peak_bytes, b.end_bytes), b.at_peak_bytes, a.index) <
           std::tuple(std::max(a.at_peak_bytes, a.end_bytes), a.at_peak_bytes, b.index);
  });
}

}  // namespace headroom::analysis
