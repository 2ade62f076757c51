#include "analysis/heap_fragmentation.h"

#include <algorithm>

#include "analysis/glibc_chunk.h"

namespace headroom::analysis {
namespace {

constexpr std::int64_t kEventsPerLiveBlock = 32;
constexpr std::size_t kMostMoments = 128;

std::uint64_t end_of(const LiveBlock& block) {
  // The header lies before the address, so a chunk's end as seen from the address is eight bytes earlier.
  return block.address + chunk_bytes(block.size) - kChunkHeader;
}

// The hole between neighbours of one extent; nothing if the extent ends between them.
std::optional<std::uint64_t> hole_between(const LiveBlock& left, const LiveBlock& right) {
  const std::uint64_t begin = end_of(left), end = right.address - kChunkHeader;
  if (end <= begin) return 0;  // another allocator packs closer than glibc
  if (end - begin >= kLargestHole) return std::nullopt;
  return end - begin;
}

std::uint64_t page_of(std::uint64_t address) { return address / kPage; }

}  // namespace

std::vector<LiveBlock> blocks_of_heap(std::vector<LiveBlock> blocks) {
  std::sort(blocks.begin(), blocks.end(),
            [](const LiveBlock& a, const LiveBlock& b) { return a.address < b.address; });
  std::size_t kept = 0;
  std::uint64_t end_before = 0;  // of the block before, whether it is kept or not
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const LiveBlock block = blocks[i];
    const std::uint64_t begin = block.address - 2 * kChunkHeader, last = end_of(block) - 1;
    const bool is_alone =
        (end_before == 0 || page_of(end_before - 1) < page_of(begin)) &&
        (i + 1 == blocks.size() || page_of(blocks[i + 1].address - kChunkHeader) > page_of(last));
    end_before = end_of(block);
    if (!is_alone || !can_be_own_mapping(block.address, block.size)) blocks[kept++] = block;
  }
  blocks.resize(kept);
  return blocks;
}

FragmentationMoment fragmentation_of(std::vector<LiveBlock> blocks, Nanoseconds time) {
  FragmentationMoment moment;
  moment.time = time;
  for (const LiveBlock& block : blocks) {
    moment.live_bytes += static_cast<std::int64_t>(block.size);
    moment.chunk_bytes += static_cast<std::int64_t>(chunk_bytes(block.size));
  }
  blocks = blocks_of_heap(std::move(blocks));

  std::uint64_t extent_begin = 0, hole_before = 0, most_freed = 0;
  const LiveBlock* blocker = nullptr;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const LiveBlock& block = blocks[i];
    if (hole_before == 0 && (i == 0 || !hole_between(blocks[i - 1], block))) {
      extent_begin = block.address - kChunkHeader;
      ++moment.extents;
    }
    const auto hole = i + 1 < blocks.size() ? hole_between(block, blocks[i + 1]) : std::nullopt;
    if (!hole) moment.extent_bytes += static_cast<std::int64_t>(end_of(block) - extent_begin);
    const std::uint64_t hole_after = hole.value_or(0);
    if (hole_after > 0) {
      ++moment.holes;
      moment.free_bytes += static_cast<std::int64_t>(hole_after);
      moment.largest_free_bytes = std::max(moment.largest_free_bytes, static_cast<std::int64_t>(hole_after));
    }
    if (hole_before > 0 && hole_after > 0 && hole_before + hole_after > most_freed) {
      most_freed = hole_before + hole_after;
      blocker = &block;
    }
    hole_before = hole_after;
  }
  if (blocker != nullptr)
    moment.blocker = Blocker{blocker->address,
                             static_cast<std::int64_t>(blocker->size),
                             StackId{blocker->stack},
                             blocker->layer,
                             ThreadIndex{blocker->thread},
                             {blocker->time_ns},
                             {time.count - blocker->time_ns},
                             static_cast<std::int64_t>(most_freed + chunk_bytes(blocker->size))};
  return moment;
}

std::vector<LiveBlock> blocks_of(const LiveMap& live) {
  std::vector<LiveBlock> blocks;
  blocks.reserve(live.size());
  live.for_each([&](const LiveBlock& block) { blocks.push_back(block); });
  return blocks;
}

void HeapFragmentation::find_extremes() {
  worst = largest = 0;
  for (std::size_t i = 1; i < moments.size(); ++i) {
    if (moments[i].free_bytes > moments[worst].free_bytes) worst = i;
    if (moments[i].extent_bytes > moments[largest].extent_bytes) largest = i;
  }
}

void FragmentationSampler::take(const LiveMap& live, Nanoseconds time) {
  taken_.push_back({fragmentation_of(blocks_of(live), time), extents_.extent_bytes(), extents_.free_bytes()});
  if (taken_.size() >= kMostMoments) {
    // Every other one goes, but not the largest and the worst, and the next ones come half as often.
    const auto worst = std::max_element(taken_.begin(), taken_.end(), [](const Taken& a, const Taken& b) {
      return a.free_bytes < b.free_bytes;
    });
    const auto largest = std::max_element(taken_.begin(), taken_.end(), [](const Taken& a, const Taken& b) {
      return a.extent_bytes < b.extent_bytes;
    });
    const std::ptrdiff_t kept[] = {worst - taken_.begin(), largest - taken_.begin()};
    for (std::ptrdiff_t i = 0; 2 * i + 1 < std::ssize(taken_); ++i)
      taken_[i] = taken_[2 * i + (kept[0] == 2 * i || kept[1] == 2 * i ? 0 : 1)];
    taken_.resize(taken_.size() / 2);
    stride_ *= 2;
  }
  events_left_ = std::max(stride_, kEventsPerLiveBlock * static_cast<std::int64_t>(live.size()));
}

HeapFragmentation FragmentationSampler::finish(const LiveMap& live, Nanoseconds time) {
  take(live, time);
  HeapFragmentation result;
  for (const Taken& taken : taken_) {
    result.moments.push_back(taken.moment);
    extent_.taken = std::max(extent_.taken, taken.extent_bytes);
    free_.taken = std::max(free_.taken, taken.free_bytes);
  }
  taken_.clear();
  result.find_extremes();
  return result;
}

std::vector<Nanoseconds> FragmentationSampler::passed_over(bool exactly) const {
  std::vector<Nanoseconds> times;
  const auto look_at = [&](const Most& most, std::int64_t part) {
    if (most.taken < most.bytes - (exactly ? 0 : most.bytes / part)) times.push_back(most.time);
  };
  look_at(extent_, 32);
  look_at(free_, 8);
  return times;
}

}  // namespace headroom::analysis
