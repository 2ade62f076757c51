#include "attribution/heap_fragmentation.h"

#include <algorithm>
#include <map>
#include <utility>

#include "attribution/glibc_chunk.h"

namespace headroom::attribution {
namespace {

constexpr std::int64_t kEventsPerLiveBlock = 32;
constexpr std::size_t kMostMoments = 128;

std::uint64_t end_of(const LiveBlock& block) {
  // The header lies before the address, so a chunk's end as seen from the address is eight bytes earlier.
  return block.address + chunk_bytes(block.size) - kChunkHeader;
}

// The hole between neighbours of one extent; nothing if the extent ends between them.
std::optional<std::uint64_t> hole_between(const LiveBlock& left, const LiveBlock& right,
                                          const HeapLayout& layout) {
  if (!layout.is_one_heap(left.address, right.address)) return std::nullopt;
  const std::uint64_t begin = end_of(left), end = right.address - kChunkHeader;
  if (end <= begin) return 0;  // another allocator packs closer than glibc
  return end - begin;
}

std::uint64_t page_of(std::uint64_t address) { return address / kPage; }

// Neighbours that border on the largest hole, and the hole behind them; 0 where the extent ends.
struct Run {
  std::size_t first = 0, last = 0;  // of the blocks
  std::uint64_t bytes = 0;          // as asked for
  std::uint64_t hole_behind = 0;

  std::uint64_t span(const std::vector<LiveBlock>& blocks) const {
    return end_of(blocks[last]) - (blocks[first].address - kChunkHeader);
  }
};

// Whether the run goes on behind this hole. Only one that is worth speaking of beside the largest ends it:
// else a run would mostly be one block that a few free bytes lie behind.
bool takes_in(Run& run, std::optional<std::uint64_t> hole, std::uint64_t largest) {
  constexpr std::uint64_t kSpokenOf = 16;
  if (!hole) return false;
  if (*hole * kSpokenOf < largest) return true;
  run.hole_behind = *hole;
  return false;
}

Run run_below(const std::vector<LiveBlock>& blocks, std::size_t last, std::uint64_t largest,
              const HeapLayout& layout) {
  Run run{last, last, blocks[last].size};
  while (run.first > 0 &&
         takes_in(run, hole_between(blocks[run.first - 1], blocks[run.first], layout), largest))
    run.bytes += blocks[--run.first].size;
  return run;
}

Run run_above(const std::vector<LiveBlock>& blocks, std::size_t first, std::uint64_t largest,
              const HeapLayout& layout) {
  Run run{first, first, blocks[first].size};
  while (run.last + 1 < blocks.size() &&
         takes_in(run, hole_between(blocks[run.last], blocks[run.last + 1], layout), largest))
    run.bytes += blocks[++run.last].size;
  return run;
}

void find_places(Blocker& blocker, const std::vector<LiveBlock>& blocks, const Run& run) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, BlockerPlace> by_place;
  for (std::size_t i = run.first; i <= run.last; ++i) {
    BlockerPlace& place = by_place[{blocks[i].stack, blocks[i].layer}];
    place.stack = StackId{blocks[i].stack};
    place.layer = blocks[i].layer;
    ++place.blocks;
    place.bytes += static_cast<std::int64_t>(blocks[i].size);
  }
  std::vector<BlockerPlace> places;
  for (const auto& [key, place] : by_place) places.push_back(place);
  std::stable_sort(places.begin(), places.end(),
                   [](const BlockerPlace& a, const BlockerPlace& b) { return a.bytes > b.bytes; });
  blocker.place_count = std::min(places.size(), blocker.most.size());
  std::copy_n(places.begin(), blocker.place_count, blocker.most.begin());
}

// `below`: the block before the largest hole.
Blocker blocker_of(const std::vector<LiveBlock>& blocks, std::size_t below, std::uint64_t largest,
                   Nanoseconds time, const HeapLayout& layout) {
  const auto freed_without = [&](const Run& run) { return largest + run.span(blocks) + run.hole_behind; };
  // One more, as a block of no bytes is in the way, too.
  const auto gain_a_byte = [&](const Run& run) {
    return static_cast<double>(freed_without(run)) / static_cast<double>(run.bytes + 1);
  };
  const Run under = run_below(blocks, below, largest, layout);
  const Run over = run_above(blocks, below + 1, largest, layout);
  const Run& run = gain_a_byte(under) > gain_a_byte(over) ? under : over;
  std::int64_t oldest = blocks[run.first].time_ns;
  for (std::size_t i = run.first; i <= run.last; ++i) oldest = std::min(oldest, blocks[i].time_ns);
  Blocker blocker{blocks[run.first].address,
                  static_cast<std::int64_t>(run.last - run.first + 1),
                  static_cast<std::int64_t>(run.bytes),
                  static_cast<std::int64_t>(run.span(blocks)),
                  static_cast<std::int64_t>(freed_without(run)),
                  {oldest},
                  {time.count - oldest}};
  find_places(blocker, blocks, run);
  return blocker;
}

}  // namespace

std::vector<LiveBlock> blocks_of_heap(std::vector<LiveBlock> blocks, const HeapLayout& layout) {
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
    const bool is_mapping = is_alone && can_be_own_mapping(block.address, block.size);
    if (!is_mapping || layout.is_of_break(block.address)) blocks[kept++] = block;
  }
  blocks.resize(kept);
  return blocks;
}

FragmentationMoment fragmentation_of(std::vector<LiveBlock> blocks, Nanoseconds time,
                                     const HeapLayout& layout) {
  FragmentationMoment moment;
  moment.time = time;
  for (const LiveBlock& block : blocks) {
    moment.live_bytes += static_cast<std::int64_t>(block.size);
    moment.chunk_bytes += static_cast<std::int64_t>(chunk_bytes(block.size));
  }
  blocks = blocks_of_heap(std::move(blocks), layout);

  std::uint64_t extent_begin = 0, largest = 0;
  std::size_t below_largest = 0;      // the block before the largest hole
  std::optional<std::uint64_t> hole;  // between the block before and this one; none: an extent begins
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const LiveBlock& block = blocks[i];
    if (!hole) {
      extent_begin = block.address - kChunkHeader;
      ++moment.extents;
    }
    hole = i + 1 < blocks.size() ? hole_between(block, blocks[i + 1], layout) : std::nullopt;
    if (!hole) moment.extent_bytes += static_cast<std::int64_t>(end_of(block) - extent_begin);
    if (hole.value_or(0) == 0) continue;
    ++moment.holes;
    moment.free_bytes += static_cast<std::int64_t>(*hole);
    if (*hole <= largest) continue;
    largest = *hole;
    below_largest = i;
  }
  moment.largest_free_bytes = static_cast<std::int64_t>(largest);
  if (largest > 0) moment.blocker = blocker_of(blocks, below_largest, largest, time, layout);
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
  taken_.push_back(
      {fragmentation_of(blocks_of(live), time, layout_), extents_.extent_bytes(), extents_.free_bytes()});
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

}  // namespace headroom::attribution
