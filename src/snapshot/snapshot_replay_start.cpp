// The state of the allocator before the first entry of the trace: from the snapshot's end, the entries are
// undone one by one.

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "snapshot/snapshot_replay.h"

namespace headroom::snapshot {

namespace {

constexpr std::int64_t kMostWalked = 20'000'000;

}  // namespace

SnapshotReplay::SnapshotReplay(const Snapshot& snapshot, std::int64_t device)
    : snapshot_(snapshot),
      device_(device),
      rules_(snapshot.settings),
      trace_(snapshot.trace_of(device)),
      entries_(trace_ != nullptr ? trace_->entry_count : 0),
      walk_budget_(kMostWalked) {
  for (const Segment& segment : snapshot.segments_of(device))
    put_range({segment.address, segment.size, segment.stream, segment.is_large, segment.is_expandable,
               segment.in_private_pool});
  AddressMap<Block> alive;
  for (const Segment& segment : snapshot.segments_of(device))
    for (const snapshot::Block& block : snapshot.blocks_of(segment))
      if (block.is_live())
        alive.set(
            block.address,
            {.size = block.size, .requested = block.requested, .stack = block.stack, .state = block.state});
  for (std::size_t i = entries_; i > 0; --i) go_back_over(snapshot_.entry(*trace_, i - 1), alive);
  lay_out(alive);
}

void SnapshotReplay::go_back_over(const TraceEntry& entry, AddressMap<Block>& alive) {
  switch (entry.action) {
    case Action::alloc:
      alive.erase(entry.address);
      return;
    case Action::free_completed:
      alive.set(entry.address,
                {.requested = entry.size, .stack = entry.stack, .state = BlockState::pending_free});
      return;
    case Action::free_requested:
      if (Block* block = alive.find(entry.address))
        block->state = BlockState::active_allocated;
      else
        alive.set(entry.address,
                  {.requested = entry.size, .stack = entry.stack, .state = BlockState::active_allocated});
      return;
    case Action::segment_alloc:
    case Action::segment_map:
      cut_out(entry.address, entry.size);
      return;
    case Action::segment_free:
      add_range(entry.address, entry.size, stream_of(entry), false);
      return;
    case Action::segment_unmap:
      add_range(entry.address, entry.size, stream_of(entry), true);
      return;
    default:
      return;
  }
}

void SnapshotReplay::lay_out(const AddressMap<Block>& alive) {
  std::vector<std::pair<std::uint64_t, Block>> blocks;
  alive.for_each([&](std::uint64_t address, const Block& block) { blocks.emplace_back(address, block); });
  std::ranges::sort(blocks, {}, [](const auto& block) { return block.first; });
  std::size_t next = 0;
  const auto put_loose = [&](std::uint64_t limit) {
    for (; next < blocks.size() && blocks[next].first < limit; ++next) {
      Block& block = blocks[next].second;
      doubt_because("some blocks are outside all segments");
      if (block.size == 0) block.size = rules_.rounded(block.requested);
      block.is_loose = true;
      put_live(blocks[next].first, block);
    }
  };
  for (const auto& [start, range] : ranges_) {
    put_loose(start);
    const std::size_t first = next;
    while (next < blocks.size() && blocks[next].first < range.end()) ++next;
    lay_out_range(range, std::span(blocks).subspan(first, next - first));
    totals_.reserved += range.size;
  }
  put_loose(~std::uint64_t{0});
}

void SnapshotReplay::lay_out_range(const HeldSegment& range,
                                   std::span<const std::pair<std::uint64_t, Block>> blocks) {
  const std::uint64_t start = range.address, end = range.end();
  std::uint64_t at = start;
  const auto fill_up_to = [&](std::uint64_t limit) {
    if (limit <= at) return;
    put_free(at, {.size = static_cast<std::int64_t>(limit - at),
                  .starts_segment = at == start,
                  .is_large = range.is_large,
                  .is_expandable = range.is_expandable});
    at = limit;
  };
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto& [address, alive] = blocks[i];
    const std::uint64_t next = i + 1 < blocks.size() ? blocks[i + 1].first : end;
    fill_up_to(address);
    Block block = alive;
    block.size = size_between(alive, static_cast<std::int64_t>(next - address), range);
    block.starts_segment = address == start;
    block.is_large = range.is_large;
    block.is_expandable = range.is_expandable;
    put_live(address, block);
    at = address + static_cast<std::uint64_t>(block.size);
  }
  fill_up_to(end);
}

// How large a block was that has so much room until the next one.
std::int64_t SnapshotReplay::size_between(const Block& alive, std::int64_t room, const HeldSegment& range) {
  if (alive.size > room) doubt_because("some blocks overlap");
  if (alive.size > 0) return std::min(alive.size, room);
  const std::int64_t size = rules_.rounded(alive.requested);
  if (size > room) doubt_because("some blocks overlap");
  if (size >= room) return room;
  if (rules_.is_cut(room, size, range.is_large, range.is_expandable)) return size;
  ++guessed_blocks_;
  return room;
}

namespace {

std::int64_t rounded_up(std::int64_t size, std::int64_t unit) { return (size + unit - 1) / unit * unit; }

}  // namespace

std::int64_t TorchAllocatorRules::divisions_for(std::int64_t size) const {
  // Each row holds from its size on; the first one for all below it, too.
  std::int64_t divisions = 0;
  for (const auto& [mebibytes, steps] : settings_.roundup_power2_divisions)
    if (divisions == 0 || size >> 20 >= mebibytes) divisions = steps;
  return divisions;
}

std::int64_t TorchAllocatorRules::rounded(std::int64_t requested) const {
  if (settings_.has_exact_sizes) return std::max<std::int64_t>(requested, 1);
  if (requested < kTorchBlockUnit) return kTorchBlockUnit;
  const std::int64_t divisions = divisions_for(requested);
  const auto size = static_cast<std::uint64_t>(requested);
  if (divisions <= 1 || requested <= kTorchBlockUnit * divisions)
    return rounded_up(requested, kTorchBlockUnit);
  // The way to the next power of two is divided in steps, a power of two of them.
  const std::uint64_t floor = std::bit_floor(size);
  const std::uint64_t step = floor >> (std::bit_width(static_cast<std::uint64_t>(divisions)) - 1);
  if (step == 0) return static_cast<std::int64_t>(floor << 1);
  return rounded_up(requested, static_cast<std::int64_t>(step));
}

bool TorchAllocatorRules::is_cut(std::int64_t size, std::int64_t rounded, bool is_large,
                                 bool is_expandable) const {
  const std::int64_t rest = size - rounded;
  if (settings_.has_exact_sizes) return rest > 0;
  if (!is_large || is_expandable) return rest >= kTorchBlockUnit;
  const std::int64_t most = settings_.max_split_bytes.value_or(std::numeric_limits<std::int64_t>::max());
  return rounded < most && rest > kTorchSmallRequest;
}

std::int64_t TorchAllocatorRules::segment_size(std::int64_t rounded) {
  constexpr std::int64_t kLargeSegment = 20 << 20, kOwnSegment = 10 << 20;
  if (rounded <= kTorchSmallRequest) return kTorchSmallSegment;
  if (rounded < kOwnSegment) return kLargeSegment;
  return rounded_up(rounded, kTorchSmallSegment);
}

}  // namespace headroom::snapshot
