#include "attribution/mapping_ledger.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <tuple>
#include <utility>

namespace headroom::attribution {

MappingLedger::MappingLedger(std::uint64_t page_bytes)
    : page_bytes_(std::has_single_bit(page_bytes) ? page_bytes : 4096) {}

// The kernel maps whole pages.
std::uint64_t MappingLedger::end_of(std::uint64_t address, std::uint64_t size) const {
  const std::uint64_t end = (address + size + page_bytes_ - 1) & ~(page_bytes_ - 1);
  return std::max(address, end);  // what overflows is damage, and empty
}

void MappingLedger::charge(const Range& range, std::int64_t bytes) {
  if (range.is_reserved) {
    reserved_ += static_cast<std::uint64_t>(bytes);
    return;
  }
  mapped_ += static_cast<std::uint64_t>(bytes);
  stacks_[range.owner.stack.index].change(bytes, 0, peak_mark_);
  layers_[range.owner.layer].change(bytes, 0, peak_mark_);
}

// Nothing is there.
void MappingLedger::add(std::uint64_t address, const Range& range) {
  if (range.end == address) return;
  ranges_[address] = range;
  charge(range, static_cast<std::int64_t>(range.end - address));
  peak_reserved_bytes_ = std::max(peak_reserved_bytes_, reserved_bytes());
  if (mapped_bytes() <= peak_bytes_) return;
  peak_bytes_ = mapped_bytes();
  ++peak_mark_;
}

void MappingLedger::map(std::uint64_t address, std::uint64_t size, MappingOwner owner) {
  unmap(address, size);
  add(address, {end_of(address, size), owner, false});
}

void MappingLedger::reserve(std::uint64_t address, std::uint64_t size) {
  unmap(address, size);
  add(address, {end_of(address, size), {}, true});
}

void MappingLedger::make_accessible(std::uint64_t address, std::uint64_t size, MappingOwner owner) {
  const std::uint64_t end = end_of(address, size);
  auto it = ranges_.upper_bound(address);
  if (it != ranges_.begin() && std::prev(it)->second.end > address) --it;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> reserved;  // from, to
  for (; it != ranges_.end() && it->first < end; ++it)
    if (it->second.is_reserved)
      reserved.emplace_back(std::max(address, it->first), std::min(end, it->second.end));
  for (const auto& [from, to] : reserved) map(from, to - from, owner);
}

void MappingLedger::apply(const MemoryEvent& event, LayerIndex layer) {
  const MappingOwner owner{event.stack, layer};
  if (event.kind == MemoryEventKind::map)
    map(event.address, event.size, owner);
  else if (event.kind == MemoryEventKind::unmap)
    unmap(event.address, event.size);
  else if (event.kind == MemoryEventKind::reserve)
    reserve(event.address, event.size);
  else if (event.kind == MemoryEventKind::make_accessible)
    make_accessible(event.address, event.size, owner);
}

void MappingLedger::unmap(std::uint64_t address, std::uint64_t size) {
  const std::uint64_t end = end_of(address, size);
  auto it = ranges_.upper_bound(address);
  if (it != ranges_.begin() && std::prev(it)->second.end > address) --it;
  while (it != ranges_.end() && it->first < end) {
    const std::uint64_t range_begin = it->first;
    const Range range = it->second;
    charge(range, -static_cast<std::int64_t>(std::min(end, range.end) - std::max(address, range_begin)));
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
  std::ranges::sort(shares, [](const MappingShare& a, const MappingShare& b) {
    return std::tuple(std::max(b.at_peak_bytes, b.end_bytes), b.at_peak_bytes, a.index) <
           std::tuple(std::max(a.at_peak_bytes, a.end_bytes), a.at_peak_bytes, b.index);
  });
}

}  // namespace headroom::attribution
