#include "snapshot/snapshot_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace headroom::snapshot {

namespace {

std::uint64_t end_of(std::uint64_t address, std::int64_t size) {
  return address + static_cast<std::uint64_t>(size);
}

}  // namespace

// --- going forward ---

SnapshotReplay::Change SnapshotReplay::step() {
  const TraceEntry& entry = snapshot_.entry(*trace_, position_);
  Change change;
  change.entry = &entry;
  switch (entry.action) {
    case Action::alloc:
      allocate(entry, change);
      break;
    case Action::free_requested:
      request_free(entry.address, change);
      break;
    case Action::free_completed:
      complete_free(entry.address, change);
      break;
    case Action::segment_alloc:
      add_segment(entry);
      break;
    case Action::segment_free:
      free_segment(entry);
      break;
    case Action::segment_map:
      map_pages(entry);
      break;
    case Action::segment_unmap:
      unmap_pages(entry);
      break;
    case Action::snapshot:
      if (entry.size != totals_.active) doubt_because("an earlier snapshot has a different total");
      break;
    default:
      break;
  }
  ++position_;
  return change;
}

void SnapshotReplay::allocate(const TraceEntry& entry, Change& change) {
  const std::int64_t rounded = rules_.rounded(entry.size);
  Block* found = blocks_.find(entry.address);
  if (found != nullptr && found->is_live()) {
    doubt_because("a block is allocated twice");
    complete_free(entry.address, change);
    change.block_bytes = 0;
    found = blocks_.find(entry.address);
  }
  if (found == nullptr) {
    if (const auto around = free_block_around(entry.address)) {
      // The caching allocator takes the beginning of a free block; others do as they like.
      if (!snapshot_.settings.has_exact_sizes) doubt_because("a block is in the middle of a free block");
      const Block whole = *blocks_.find(*around);
      take_free(*around, whole);
      put_rest(*around, whole, entry.address, entry.address);
      found = blocks_.find(entry.address);
    }
  }
  Block block{.size = rounded, .is_loose = true};
  if (found != nullptr && found->size >= rounded) {
    block = *found;
    take_free(entry.address, block);
    if (rules_.is_cut(block.size, rounded, block.is_large, block.is_expandable)) {
      Block rest = block;
      rest.size -= rounded;
      rest.starts_segment = false;
      put_free(end_of(entry.address, rounded), rest);
      block.size = rounded;
    }
  } else {
    doubt_because("a block is allocated outside all free blocks");
    if (found != nullptr) take_free(entry.address, *found);
  }
  block.requested = entry.size;
  block.stack = entry.stack;
  block.born = static_cast<std::uint32_t>(position_);
  block.state = BlockState::active_allocated;
  put_live(entry.address, block);
  change.block_bytes = block.size;
  change.requested = block.requested;
  change.stack = block.stack;
}

void SnapshotReplay::request_free(std::uint64_t address, Change& change) {
  Block* block = blocks_.find(address);
  if (block == nullptr || block->state != BlockState::active_allocated)
    return doubt_because("a block is freed that was not allocated");
  block->state = BlockState::pending_free;
  totals_.allocated -= block->size;
  change.block_bytes = block->size;
  change.requested = block->requested;
  change.stack = block->stack;
}

void SnapshotReplay::complete_free(std::uint64_t address, Change& change) {
  Block* found = blocks_.find(address);
  if (found == nullptr || !found->is_live()) return doubt_because("a block is freed that was not allocated");
  if (found->state == BlockState::active_allocated) request_free(address, change);
  Block block = *found;
  drop(address);
  if (block.is_loose) return;
  // It becomes one with its free neighbours of the same segment.
  if (!block.starts_segment) {
    if (const auto start = free_block_before(address)) {
      const Block free = *blocks_.find(*start);
      take_free(*start, free);
      block.size += free.size;
      block.starts_segment = free.starts_segment;
      address = *start;
    }
  }
  const std::uint64_t end = end_of(address, block.size);
  if (const Block* after = blocks_.find(end);
      after != nullptr && !after->is_live() && !after->starts_segment) {
    const Block free = *after;
    take_free(end, free);
    block.size += free.size;
  }
  put_free(address, block);
}

void SnapshotReplay::add_segment(const TraceEntry& entry) {
  add_range(entry.address, entry.size, stream_of(entry), false);
  totals_.reserved += entry.size;
  clear_from(entry.address, end_of(entry.address, entry.size));
  put_free(entry.address,
           {.size = entry.size, .starts_segment = true, .is_large = ranges_[entry.address].is_large});
}

void SnapshotReplay::free_segment(const TraceEntry& entry) {
  const Block* block = blocks_.find(entry.address);
  if (block == nullptr || block->is_live() || block->size != entry.size)
    doubt_because("a segment in use is released");
  clear_from(entry.address, end_of(entry.address, entry.size));
  cut_out(entry.address, entry.size);
  totals_.reserved -= entry.size;
}

void SnapshotReplay::map_pages(const TraceEntry& entry) {
  const std::uint64_t end = end_of(entry.address, entry.size);
  const auto around = range_around(entry.address - 1);
  const bool joins_before = entry.address > 0 && around != ranges_.end() && around->second.is_expandable &&
                            around->second.stream == stream_of(entry) &&
                            around->second.end() == entry.address;
  const auto behind = ranges_.find(end);
  const bool joins_after =
      behind != ranges_.end() && behind->second.is_expandable && behind->second.stream == stream_of(entry);
  clear_from(entry.address, end);
  add_range(entry.address, entry.size, stream_of(entry), true);
  totals_.reserved += entry.size;
  if (joins_after)
    if (Block* next = blocks_.find(end)) next->starts_segment = false;
  // As if a block of these pages had just been released.
  put_live(entry.address, {.size = entry.size,
                           .state = BlockState::pending_free,
                           .starts_segment = !joins_before,
                           .is_large = range_around(entry.address)->second.is_large,
                           .is_expandable = true});
  Change ignored;
  complete_free(entry.address, ignored);
}

void SnapshotReplay::unmap_pages(const TraceEntry& entry) {
  const std::uint64_t end = end_of(entry.address, entry.size);
  totals_.reserved -= entry.size;
  std::optional<std::uint64_t> start;
  if (const Block* block = blocks_.find(entry.address); block != nullptr && !block->is_live())
    start = entry.address;
  else if (const auto begin = free_block_before(end); begin && *begin <= entry.address)
    start = begin;
  else
    start = free_block_around(entry.address);
  const Block* found = start ? blocks_.find(*start) : nullptr;
  if (found == nullptr || end_of(*start, found->size) < end) {
    doubt_because("pages in use are released");
    clear_from(entry.address, end);
  } else {
    const Block whole = *found;
    take_free(*start, whole);
    put_rest(*start, whole, entry.address, end);
  }
  cut_out(entry.address, entry.size);
  if (Block* block = blocks_.find(end)) block->starts_segment = true;
}

// --- ranges ---

void SnapshotReplay::add_range(std::uint64_t address, std::int64_t size, std::int64_t stream,
                               bool is_expandable) {
  HeldSegment range{address, size, stream,
                    is_expandable ? size % kTorchLargePage == 0 : size > kTorchSmallSegment, is_expandable};
  if (is_expandable) {
    const auto before = address > 0 ? range_around(address - 1) : ranges_.end();
    if (before != ranges_.end() && before->second.is_expandable && before->second.stream == stream &&
        before->second.end() == address) {
      range.address = before->first;
      range.size += before->second.size;
      range.is_large = before->second.is_large;
      ranges_.erase(before);
    }
    const auto after = ranges_.find(end_of(address, size));
    if (after != ranges_.end() && after->second.is_expandable && after->second.stream == stream) {
      range.size += after->second.size;
      range.is_large = after->second.is_large;
      ranges_.erase(after);
    }
  }
  // What it is in the end it was before: that is known.
  const auto segments = snapshot_.segments_of(device_);
  const auto known = std::ranges::lower_bound(segments, range.address, {}, &Segment::address);
  if (known != segments.end() && known->address == range.address && known->is_expandable == is_expandable) {
    range.is_large = known->is_large;
    range.in_private_pool = known->in_private_pool;
  }
  const auto [it, is_new] = ranges_.insert_or_assign(range.address, range);
  const bool overlaps = (it != ranges_.begin() && std::prev(it)->second.end() > range.address) ||
                        (std::next(it) != ranges_.end() && std::next(it)->first < range.end());
  if (!is_new || overlaps) doubt_because("some segments overlap");
}

void SnapshotReplay::cut_out(std::uint64_t address, std::int64_t size) {
  const auto it = range_around(address);
  if (it == ranges_.end() || it->second.end() < end_of(address, size))
    return doubt_because("a segment's address differs from the trace");
  HeldSegment before = it->second, after = it->second;
  before.size = static_cast<std::int64_t>(address - before.address);
  after.size -= before.size + size;
  after.address = end_of(address, size);
  ranges_.erase(it);
  put_range(before);
  put_range(after);
}

void SnapshotReplay::put_range(HeldSegment range) {
  if (range.size > 0) ranges_[range.address] = range;
}

SnapshotReplay::Ranges::iterator SnapshotReplay::range_around(std::uint64_t address) {
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return ranges_.end();
  --it;
  return address < it->second.end() ? it : ranges_.end();
}

// --- blocks ---

void SnapshotReplay::put_live(std::uint64_t address, const Block& block) {
  make_room_at(address);
  blocks_.set(address, block);
  if (block.state == BlockState::active_allocated) totals_.allocated += block.size;
  totals_.active += block.size;
  totals_.requested += block.requested;
  ++totals_.blocks;
}

void SnapshotReplay::put_free(std::uint64_t address, Block block) {
  block.state = BlockState::inactive;
  block.requested = 0;
  block.stack = {};
  block.born = kBeforeTrace;
  block.is_loose = false;
  make_room_at(address);
  blocks_.set(address, block);
  free_ends_.set(end_of(address, block.size), address);
}

// The parts of a free block before `begin` and from `end` on.
void SnapshotReplay::put_rest(std::uint64_t address, const Block& whole, std::uint64_t begin,
                              std::uint64_t end) {
  Block before = whole, after = whole;
  before.size = static_cast<std::int64_t>(begin - address);
  after.size = static_cast<std::int64_t>(end_of(address, whole.size) - end);
  after.starts_segment = begin != end;
  if (before.size > 0) put_free(address, before);
  if (after.size > 0) put_free(end, after);
}

void SnapshotReplay::take_free(std::uint64_t address, const Block& block) {
  free_ends_.erase(end_of(address, block.size));
  blocks_.erase(address);
}

// A live block that is gone; nothing is put in its place.
void SnapshotReplay::drop(std::uint64_t address) {
  const Block block = *blocks_.find(address);
  if (block.state == BlockState::active_allocated) totals_.allocated -= block.size;
  totals_.active -= block.size;
  totals_.requested -= block.requested;
  --totals_.blocks;
  blocks_.erase(address);
}

// Only a trace that contradicts itself puts a block where one is.
void SnapshotReplay::make_room_at(std::uint64_t address) {
  const Block* found = blocks_.find(address);
  if (found == nullptr) return;
  doubt_because("some blocks overlap");
  remove(address, Block(*found));
}

void SnapshotReplay::remove(std::uint64_t address, const Block& block) {
  if (block.is_live())
    drop(address);
  else
    take_free(address, block);
}

// Where the free block begins that ends here.
std::optional<std::uint64_t> SnapshotReplay::free_block_before(std::uint64_t end) {
  const std::uint64_t* start = free_ends_.find(end);
  if (start == nullptr) return {};
  const Block* block = blocks_.find(*start);
  const bool is_so = block != nullptr && !block->is_live() && end_of(*start, block->size) == end;
  return is_so ? std::optional(*start) : std::nullopt;
}

// Whatever lies there in a row.
void SnapshotReplay::clear_from(std::uint64_t address, std::uint64_t end) {
  while (address < end) {
    const Block* found = blocks_.find(address);
    if (found == nullptr || found->size <= 0) return;
    const Block block = *found;
    remove(address, block);
    address = end_of(address, block.size);
  }
}

std::optional<std::uint64_t> SnapshotReplay::free_block_around(std::uint64_t address) {
  const auto range = range_around(address);
  if (range == ranges_.end()) return {};
  std::uint64_t at = range->first;
  while (walk_budget_-- > 0) {
    const Block* block = blocks_.find(at);
    if (block == nullptr || block->size <= 0) return {};
    const std::uint64_t end = end_of(at, block->size);
    if (address < end) return block->is_live() ? std::nullopt : std::optional(at);
    at = end;
  }
  return {};
}

// --- what came out ---

DeviceState SnapshotReplay::state() const {
  DeviceState state;
  for (const auto& [start, range] : ranges_) {
    HeldSegment segment = range;
    segment.first_block = state.blocks.size();
    for (std::uint64_t at = start; at < range.end();) {
      const Block* block = blocks_.find(at);
      if (block == nullptr || block->size <= 0) break;
      state.blocks.push_back({at, block->size, block->requested, block->stack, block->born, block->state});
      at = end_of(at, block->size);
    }
    segment.block_count = state.blocks.size() - segment.first_block;
    state.segments.push_back(segment);
  }
  if (doubt_.empty()) return state;
  // Where trace and segments contradict each other a segment may have gaps, and what lies behind one was not
  // reached.
  blocks_.for_each([&](std::uint64_t address, const Block& block) {
    if (block.is_live() && !std::ranges::binary_search(state.blocks, address, {}, &HeldBlock::address))
      state.loose.push_back({address, block.size, block.requested, block.stack, block.born, block.state});
  });
  std::ranges::sort(state.loose, {}, &HeldBlock::address);
  return state;
}

std::string SnapshotReplay::doubt() const {
  if (!doubt_.empty()) return doubt_;
  if (guessed_blocks_ > 0)
    return fmt::format("the trace starts after {} of the blocks that it frees were allocated",
                       guessed_blocks_);
  std::int64_t live = 0;
  bool is_same = true;
  for (const Segment& segment : snapshot_.segments_of(device_))
    for (const snapshot::Block& expected : snapshot_.blocks_of(segment)) {
      if (!expected.is_live()) continue;
      const Block* block = blocks_.find(expected.address);
      is_same = is_same && block != nullptr && block->size == expected.size && block->state == expected.state;
      ++live;
    }
  if (is_same && live == totals_.blocks) return {};
  return "the trace ends with different blocks than the snapshot has";
}

void SnapshotReplay::doubt_because(std::string_view why) {
  if (doubt_.empty()) doubt_ = why;
}

}  // namespace headroom::snapshot
