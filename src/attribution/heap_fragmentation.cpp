#include "attribution/heap_fragmentation.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "attribution/later_passes.h"

namespace headroom::attribution {

namespace {

constexpr std::int64_t kEventsPerLiveBlock = 32;
constexpr std::size_t kMostMoments = 128;

std::uint64_t end_of(const HeapBlock& block) {
  // The header is before the address, so the chunk ends eight bytes earlier as seen from the address.
  return block.address + chunk_bytes(block.size) - kChunkHeader;
}

// The hole between neighbours of one extent; nothing if the extent ends between them.
std::optional<std::uint64_t> hole_between(const HeapBlock& left, const HeapBlock& right,
                                          const HeapLayout& layout) {
  if (!layout.is_one_heap(left.address, right.address)) return std::nullopt;
  const std::uint64_t begin = end_of(left), end = right.address - kChunkHeader;
  if (end <= begin) return 0;  // another allocator packs closer than glibc
  return end - begin;
}

std::uint64_t page_of(std::uint64_t address) { return address / kPage; }

// Sorts by address with a radix of 2^11, by the bits in which the addresses differ. A million blocks take a
// fifth of std::sort's time.
void sort_by_address(std::vector<HeapBlock>& blocks, std::vector<HeapBlock>& buffer) {
  constexpr unsigned kDigit = 11, kDigits = 1U << kDigit;
  if (blocks.size() < kDigits) {
    std::ranges::sort(blocks, {}, &HeapBlock::address);
    return;
  }
  std::uint64_t differing = 0;
  for (const HeapBlock& block : blocks) differing |= block.address ^ blocks[0].address;
  if (buffer.capacity() < blocks.size()) buffer = reserved_in_huge_pages<HeapBlock>(blocks.capacity());
  buffer.resize(blocks.size());
  for (unsigned shift = static_cast<unsigned>(std::countr_zero(differing));
       shift < 64 && differing >> shift != 0; shift += kDigit) {
    if ((differing >> shift & (kDigits - 1)) == 0) continue;
    const auto digit_of = [shift](const HeapBlock& block) { return block.address >> shift & (kDigits - 1); };
    std::array<std::size_t, kDigits + 1> begin{};
    for (const HeapBlock& block : blocks) ++begin[digit_of(block) + 1];
    for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
    for (const HeapBlock& block : blocks) buffer[begin[digit_of(block)]++] = block;
    blocks.swap(buffer);
  }
}

// Removes from sorted blocks those that are mappings of their own. `Blocks`: of HeapBlock or LiveBlock.
template <class Blocks>
void keep_blocks_of_heap(Blocks& blocks, const HeapLayout& layout) {
  std::size_t kept = 0;
  std::uint64_t end_before = 0;  // of the block before, whether it is kept or not
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto block = blocks[i];
    const std::uint64_t begin = block.address - 2 * kChunkHeader, end = end_of({block.address, block.size});
    const bool is_alone =
        (end_before == 0 || page_of(end_before - 1) < page_of(begin)) &&
        (i + 1 == blocks.size() || page_of(blocks[i + 1].address - kChunkHeader) > page_of(end - 1));
    end_before = end;
    const bool is_mapping = is_alone && can_be_own_mapping(block.address, block.size);
    if (!is_mapping || layout.is_of_break(block.address)) blocks[kept++] = block;
  }
  blocks.resize(kept);
}

// Neighbours at one end of the largest hole, and the hole behind them (0 at the extent's end).
struct Run {
  std::size_t first = 0, last = 0;  // of the blocks
  std::uint64_t bytes = 0;          // as asked for
  std::uint64_t hole_behind = 0;

  std::uint64_t span(const std::vector<HeapBlock>& blocks) const {
    return end_of(blocks[last]) - (blocks[first].address - kChunkHeader);
  }
};

// The run from this block upward or downward. Only a hole of at least a sixteenth of the largest ends it;
// otherwise most runs would be a single block before a few free bytes.
Run run_from(const std::vector<HeapBlock>& blocks, std::size_t block, bool upward, std::uint64_t largest,
             const HeapLayout& layout) {
  constexpr std::uint64_t kPartOfLargest = 16;
  Run run{block, block, blocks[block].size};
  while (upward ? block + 1 < blocks.size() : block > 0) {
    const std::size_t left = upward ? block : block - 1;
    const auto hole = hole_between(blocks[left], blocks[left + 1], layout);
    if (!hole) break;
    if (*hole * kPartOfLargest >= largest) {
      run.hole_behind = *hole;
      break;
    }
    block = upward ? left + 1 : left;
    run.bytes += blocks[block].size;
  }
  (upward ? run.last : run.first) = block;
  return run;
}

// `details` returns the LiveBlock at an address.
template <class Details>
void find_places(Blocker& blocker, const std::vector<HeapBlock>& blocks, const Run& run, Details&& details) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, BlockerPlace> by_place;
  std::int64_t oldest = kLatestTime;
  for (std::size_t i = run.first; i <= run.last; ++i) {
    const LiveBlock& block = details(blocks[i].address);
    oldest = std::min(oldest, block.time_ns);
    BlockerPlace& place = by_place[{block.stack, block.layer}];
    place.stack = StackId{block.stack};
    place.layer = block.layer;
    ++place.blocks;
    place.bytes += static_cast<std::int64_t>(block.size);
  }
  blocker.allocated_at = {oldest};
  std::vector<BlockerPlace> places;
  for (const auto& [key, place] : by_place) places.push_back(place);
  std::ranges::stable_sort(places, std::greater<>(), &BlockerPlace::bytes);
  blocker.place_count = std::min(places.size(), blocker.most.size());
  std::copy_n(places.begin(), blocker.place_count, blocker.most.begin());
}

// `below`: the block before the largest hole.
template <class Details>
Blocker blocker_of(const std::vector<HeapBlock>& blocks, std::size_t below, std::uint64_t largest,
                   Nanoseconds time, const HeapLayout& layout, Details&& details) {
  const auto freed_without = [&](const Run& run) { return largest + run.span(blocks) + run.hole_behind; };
  // Plus one, because a block of 0 bytes also blocks.
  const auto gain_a_byte = [&](const Run& run) {
    return static_cast<double>(freed_without(run)) / static_cast<double>(run.bytes + 1);
  };
  const Run under = run_from(blocks, below, false, largest, layout);
  const Run over = run_from(blocks, below + 1, true, largest, layout);
  const Run& run = gain_a_byte(under) > gain_a_byte(over) ? under : over;
  Blocker blocker;
  blocker.address = blocks[run.first].address;
  blocker.blocks = static_cast<std::int64_t>(run.last - run.first + 1);
  blocker.bytes = static_cast<std::int64_t>(run.bytes);
  blocker.span_bytes = static_cast<std::int64_t>(run.span(blocks));
  blocker.freed_if_gone = static_cast<std::int64_t>(freed_without(run));
  find_places(blocker, blocks, run, details);
  blocker.age = {time.count - blocker.allocated_at.count};
  return blocker;
}

// `blocks` are sorted. Removes those that are mappings of their own.
template <class Details>
FragmentationMoment moment_of(std::vector<HeapBlock>& blocks, Nanoseconds time, const HeapLayout& layout,
                              Details&& details) {
  FragmentationMoment moment;
  moment.time = time;
  for (const HeapBlock& block : blocks) {
    moment.live_bytes += static_cast<std::int64_t>(block.size);
    moment.chunk_bytes += static_cast<std::int64_t>(chunk_bytes(block.size));
  }
  keep_blocks_of_heap(blocks, layout);

  std::uint64_t extent_begin = 0, largest = 0;
  std::size_t below_largest = 0;      // the block before the largest hole
  std::optional<std::uint64_t> hole;  // between the block before and this one; none: an extent begins
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const HeapBlock& block = blocks[i];
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
  if (largest > 0) moment.blocker = blocker_of(blocks, below_largest, largest, time, layout, details);
  return moment;
}

// `blocks` become the live ones, sorted.
void copy_heap(const LiveMap& live, std::vector<HeapBlock>& blocks, std::vector<HeapBlock>& buffer) {
  if (blocks.capacity() < live.size()) blocks = reserved_in_huge_pages<HeapBlock>(live.size() * 2);
  blocks.clear();
  live.for_each([&](const LiveBlock& block) { blocks.push_back({block.address, block.size}); });
  sort_by_address(blocks, buffer);
}

}  // namespace

std::vector<LiveBlock> blocks_of_heap(std::vector<LiveBlock> blocks, const HeapLayout& layout) {
  std::ranges::sort(blocks, {}, &LiveBlock::address);
  keep_blocks_of_heap(blocks, layout);
  return blocks;
}

FragmentationMoment fragmentation_of(std::vector<LiveBlock> blocks, Nanoseconds time,
                                     const HeapLayout& layout) {
  std::ranges::sort(blocks, {}, &LiveBlock::address);
  std::vector<HeapBlock> heap;
  for (const LiveBlock& block : blocks) heap.push_back({block.address, block.size});
  return moment_of(heap, time, layout, [&](std::uint64_t address) -> const LiveBlock& {
    return *std::ranges::lower_bound(blocks, address, {}, &LiveBlock::address);
  });
}

void HeapFragmentation::find_extremes() {
  worst = largest = 0;
  for (std::size_t i = 1; i < moments.size(); ++i) {
    if (moments[i].free_bytes > moments[worst].free_bytes) worst = i;
    if (moments[i].extent_bytes > moments[largest].extent_bytes) largest = i;
  }
}

void FragmentationSampler::take(const LiveMap& live, Nanoseconds time) {
  copy_heap(live, blocks_, buffer_);
  const auto details = [&](std::uint64_t address) -> const LiveBlock& { return *live.find(address); };
  taken_.push_back(
      {moment_of(blocks_, time, layout_, details), extents_.extent_bytes(), extents_.free_bytes()});
  extent_.take(taken_.back().extent_bytes);
  free_.take(taken_.back().free_bytes);
  if (taken_.size() >= kMostMoments) {
    // Remove every other moment except the largest and the worst, and take later ones half as often.
    const auto worst = std::ranges::max_element(taken_, {}, &Taken::free_bytes);
    const auto largest = std::ranges::max_element(taken_, {}, &Taken::extent_bytes);
    const std::ptrdiff_t kept[] = {worst - taken_.begin(), largest - taken_.begin()};
    for (std::ptrdiff_t i = 0; 2 * i + 1 < std::ssize(taken_); ++i)
      taken_[i] = taken_[2 * i + (kept[0] == 2 * i || kept[1] == 2 * i ? 0 : 1)];
    taken_.resize(taken_.size() / 2);
    stride_ *= 2;
  }
  events_left_ = std::max(stride_, kEventsPerLiveBlock * static_cast<std::int64_t>(live.size()));
}

// The state before this event was close to a maximum of the extents or the holes that no other moment shows.
void FragmentationSampler::keep_before() {
  const auto keep = [&](Extreme& extreme) {
    extreme = {before_, since_.size(), true, std::nullopt};
    is_waiting_ = true;
  };
  if (before_.extent > extent_.taken) keep(largest_);
  if (before_.free > free_.taken) keep(worst_);
  extent_.take(before_.extent);
  free_.take(before_.free);
  const auto is_needed = [&](const Extreme& extreme) {
    return extreme.waits && extreme.changes_before < since_.size();
  };
  if (is_needed(largest_) || is_needed(worst_)) return;
  since_.clear();
  largest_.changes_before = worst_.changes_before = 0;
}

// Measuring takes as long as recording some changes of each live block, so it must be rare.
void FragmentationSampler::remember(const Change& change, const LiveMap& live) {
  constexpr std::size_t kFewest = 1 << 12;
  since_.push_back(change);
  if (since_.size() > std::max(kFewest, live.size() / 4)) measure_waiting(live);
}

void FragmentationSampler::measure_waiting(const LiveMap& live) {
  if (largest_.waits) measure(largest_, live);
  if (worst_.waits && largest_.taken && worst_.state.time == largest_.state.time)
    worst_ = largest_;
  else if (worst_.waits)
    measure(worst_, live);
  since_.clear();
  is_waiting_ = false;
}

// The first change of an address since then tells what was there: the block that was removed, or nothing
// before one was added. All other blocks are still live.
void FragmentationSampler::measure(Extreme& extreme, const LiveMap& live) {
  std::vector<HeapBlock> changed;  // the size is the index of the change
  for (std::size_t i = extreme.changes_before; i < since_.size(); ++i)
    changed.push_back({since_[i].block.address, i});
  std::ranges::stable_sort(changed, {}, &HeapBlock::address);
  const auto is_same = [](const HeapBlock& a, const HeapBlock& b) { return a.address == b.address; };
  changed.erase(std::unique(changed.begin(), changed.end(), is_same), changed.end());

  copy_heap(live, blocks_, buffer_);
  buffer_.clear();
  auto still_live = blocks_.begin();
  for (const HeapBlock& of_change : changed) {
    while (still_live != blocks_.end() && still_live->address < of_change.address)
      buffer_.push_back(*still_live++);
    if (still_live != blocks_.end() && still_live->address == of_change.address) ++still_live;
    const Change& change = since_[of_change.size];
    if (!change.was_added) buffer_.push_back({change.block.address, change.block.size});
  }
  buffer_.insert(buffer_.end(), still_live, blocks_.end());

  const auto details = [&](std::uint64_t address) -> const LiveBlock& {
    const auto found = std::ranges::lower_bound(changed, address, {}, &HeapBlock::address);
    if (found != changed.end() && found->address == address) return since_[found->size].block;
    return *live.find(address);
  };
  extreme.taken = Taken{moment_of(buffer_, extreme.state.time, layout_, details), extreme.state.extent,
                        extreme.state.free};
  extreme.waits = false;
}

HeapFragmentation FragmentationSampler::finish(const LiveMap& live, Nanoseconds time, bool with_extremes) {
  take(live, time);
  if (with_extremes) measure_waiting(live);
  extent_.taken = free_.taken = 0;
  HeapFragmentation result;
  const auto add = [&](const Taken& taken) {
    result.moments.push_back(taken.moment);
    extent_.take(taken.extent_bytes);
    free_.take(taken.free_bytes);
  };
  for (const Taken& taken : taken_) add(taken);
  const std::optional<Taken>&largest = largest_.taken, &worst = worst_.taken;
  if (with_extremes && largest) add(*largest);
  if (with_extremes && worst && (!largest || worst->moment.time != largest->moment.time)) add(*worst);
  taken_.clear();
  blocks_ = buffer_ = {};
  since_ = {};
  std::ranges::stable_sort(result.moments, {}, &FragmentationMoment::time);
  result.find_extremes();
  return result;
}

std::vector<Nanoseconds> FragmentationSampler::passed_over(bool exactly) const {
  std::vector<Nanoseconds> times;
  for (const Most& most : {extent_, free_})
    if (most.taken < most.bytes - (exactly ? 0 : most.bytes / most.part)) times.push_back(most.time);
  return times;
}

HeapLayout heap_layout_of(const recording::RecordingInfo& info) {
  // The break starts at random up to 1 GiB behind the program. Libraries and other mappings are at the other
  // end of the addresses, at least 180 GiB away (machines with 39 bits).
  constexpr std::uint64_t kFurthest = std::uint64_t{64} << 30;
  const auto program = std::ranges::find(info.modules, info.executable, &recording::Module::path);
  if (info.executable.empty() || program == info.modules.end() || program->end > ~kFurthest) return {};
  // A program that the loader was called with is among the libraries, and its break is elsewhere.
  std::uint64_t end = program->end + kFurthest;
  for (const recording::Module& module : info.modules)
    if (module.start >= program->end) end = std::min(end, module.start);
  return {program->end, end};
}

HeapExtents::Part* HeapExtents::find_part(std::uint64_t number, bool make) {
  const auto found = parts_.find(number);
  if (found != parts_.end()) return found->second.get();
  if (!make || parts_.size() >= kMostParts) return nullptr;
  return parts_.emplace(number, std::make_unique<Part>()).first->second.get();
}

void HeapExtents::toggle(Part& part, std::uint64_t unit) {
  const std::uint64_t number = unit / kUnitsOfAPart;
  const bool is_of_break = layout_.is_stretch_of_break(number);
  const std::uint64_t before = reach_of(part, is_of_break);
  const bool was_used = part.used_units > 0;
  toggle_in_part(part, static_cast<std::uint32_t>(unit % kUnitsOfAPart));
  if (is_of_break && was_used != (part.used_units > 0)) {
    if (was_used)
      of_break_.erase(number);
    else
      of_break_.emplace(number, &part);
  }
  extent_bytes_ += static_cast<std::int64_t>((reach_of(part, is_of_break) - before) * kUnit);
}

void HeapExtents::toggle_in_part(Part& part, std::uint32_t index) {
  const auto word_of = [&](std::uint32_t unit) { return part.used[unit / 64]; };
  part.used[index / 64] ^= std::uint64_t{1} << index % 64;
  if ((word_of(index) >> index % 64 & 1) != 0) {
    part.first = part.used_units == 0 ? index : std::min(part.first, index);
    part.last = part.used_units == 0 ? index : std::max(part.last, index);
    ++part.used_units;
    return;
  }
  if (--part.used_units == 0) return;
  // Another unit is used, so each search ends.
  if (index == part.first) {
    std::uint32_t at = index / 64 * 64;
    while (word_of(at) == 0) at += 64;
    part.first = at + static_cast<std::uint32_t>(std::countr_zero(word_of(at)));
  }
  if (index == part.last) {
    std::uint32_t at = index / 64 * 64;
    while (word_of(at) == 0) at -= 64;
    part.last = at + 63 - static_cast<std::uint32_t>(std::countl_zero(word_of(at)));
  }
}

std::uint64_t HeapExtents::reach_of(const Part& part, bool is_of_break) const {
  if (!is_of_break) return part.used_units > 0 ? part.last - part.first + 1 : 0;
  if (of_break_.empty()) return 0;
  const auto& [first, lowest] = *of_break_.begin();
  const auto& [last, highest] = *of_break_.rbegin();
  return (last - first) * kUnitsOfAPart + highest->last - lowest->first + 1;
}

namespace {

constexpr std::size_t kEnough = 32;
// Live blocks that may be sorted for the moments spread over the time: 0.2 s.
constexpr std::int64_t kMostSorted = 2'000'000;

// The state after the last event at or before each of `times`, ascending.
std::vector<FragmentationMoment> fragmentation_at(recording::Recording& recording,
                                                  const std::vector<Nanoseconds>& times) {
  std::vector<FragmentationMoment> moments;
  LiveMap live;
  LayerTree layers(recording);
  const HeapLayout layout = heap_layout_of(recording.info());
  std::vector<HeapBlock> blocks, buffer;
  const auto take_before = [&](std::int64_t time) {
    for (; moments.size() < times.size() && times[moments.size()].count < time;) {
      copy_heap(live, blocks, buffer);
      const auto details = [&](std::uint64_t address) -> const LiveBlock& { return *live.find(address); };
      moments.push_back(moment_of(blocks, times[moments.size()], layout, details));
    }
  };
  recording.for_each_event([&](const MemoryEvent& event) {
    if (moments.size() == times.size()) return;
    if (event.kind != MemoryEventKind::release && !is_allocation(event)) return;
    take_before(event.time.count);
    live.apply(event, layers);
  });
  take_before(std::numeric_limits<std::int64_t>::max());
  return moments;
}

bool is_same(const FragmentationMoment& a, const FragmentationMoment& b) {
  return a.live_bytes == b.live_bytes && a.extent_bytes == b.extent_bytes && a.free_bytes == b.free_bytes &&
         a.holes == b.holes && a.largest_free_bytes == b.largest_free_bytes;
}

}  // namespace

void add_fragmentation_moments(recording::Recording& recording, std::vector<Nanoseconds> passed_over,
                               RecordingAnalysis& analysis) {
  HeapFragmentation& fragmentation = *analysis.fragmentation;
  std::vector<Nanoseconds> times = std::move(passed_over);
  const Nanoseconds end = fragmentation.moments.back().time;
  if (fragmentation.moments.size() < kEnough && analysis.allocations > 0 &&
      analysis.events <= kCheaplyReadAgain) {
    times.push_back(analysis.peak_time);
    const std::int64_t blocks = std::max<std::int64_t>(1, analysis.peak_blocks.value);
    const std::int64_t spread = std::min({std::int64_t{kEnough}, kMostSorted / blocks, analysis.events / 8});
    for (std::int64_t i = 1; i < spread; ++i) times.push_back({end.count / spread * i});
  }
  std::erase_if(times, [&](Nanoseconds time) { return time >= end; });
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  if (times.empty()) return;

  std::vector<FragmentationMoment>& moments = fragmentation.moments;
  const std::vector<FragmentationMoment> more = fragmentation_at(recording, times);
  for (std::size_t i = 0; i < more.size(); ++i) {
    // Of equal moments, keep only the first and the last.
    const bool goes_on =
        i > 0 && i + 1 < more.size() && is_same(more[i - 1], more[i]) && is_same(more[i], more[i + 1]);
    if (!goes_on) moments.push_back(more[i]);
  }
  std::ranges::stable_sort(moments, {}, &FragmentationMoment::time);
  fragmentation.find_extremes();
}

}  // namespace headroom::attribution
