#include "report/recording/recording_html.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <utility>

#include "attribution/heap_fragmentation.h"
#include "attribution/live_map.h"

namespace headroom::report {
namespace {

using namespace attribution;

constexpr std::size_t kMostMoments = 64, kFewestMoments = 8;
// Beyond those: a server that loads, runs and idles has as many quiet times as runs.
constexpr std::size_t kMostQuietTimes = 32;
// A moment keeps 8 bytes for each stack: with a million stacks there are fewer moments, not gigabytes.
constexpr std::size_t kMostMomentStacks = 8 << 20;
constexpr std::size_t kMostHeapMaps = 16;
constexpr std::uint64_t kMostCells = 4096, kSmallestCell = 64;
// glibc's arenas are a handful; a damaged file may name millions.
constexpr std::size_t kMostExtents = 64;

// The fullest moment of each stretch of time, in one number of bytes that the caller keeps up to date.
class FullestMoments {
 public:
  FullestMoments(Nanoseconds duration, std::size_t stretches)
      : width_(std::max<std::int64_t>(1, duration.count / static_cast<std::int64_t>(stretches) + 1)),
        best_(stretches) {}

  // `before` was live until this moment, `now` is from it on.
  void changed(std::int64_t time, std::int64_t before, std::int64_t now) {
    const auto stretch = static_cast<std::size_t>(
        std::clamp<std::int64_t>(time / width_, 0, static_cast<std::int64_t>(best_.size()) - 1));
    Best& best = best_[stretch];
    if (!best.seen) best = {true, static_cast<std::int64_t>(stretch) * width_, before};
    if (now > best.bytes) best = {true, time, now};
  }
  std::int64_t width() const { return width_; }
  std::vector<Nanoseconds> times() const {
    std::vector<Nanoseconds> times;
    for (const Best& best : best_)
      if (best.seen) times.push_back({best.time});
    return times;
  }

 private:
  struct Best {
    bool seen = false;
    std::int64_t time = 0, bytes = 0;
  };
  std::int64_t width_;
  std::vector<Best> best_;
};

// Nothing was allocated or released after `from`, up to and with `until`.
struct QuietTime {
  std::int64_t from, until;
};

// The longest quiet times, in order. The time between the last event and the end is always one.
class QuietTimes {
 public:
  explicit QuietTimes(std::int64_t shortest) : shortest_(shortest) {}

  void changed(std::int64_t time) {
    if (last_ && time - *last_ >= shortest_) times_.push_back({*last_, time - 1});
    last_ = time;
  }
  std::vector<QuietTime> take(Nanoseconds duration, std::size_t most) {
    std::optional<QuietTime> end;
    if (last_) end = {*last_, std::max(*last_, duration.count)};
    if (times_.size() > most) {
      const auto kept = times_.begin() + static_cast<std::ptrdiff_t>(most);
      std::nth_element(times_.begin(), kept, times_.end(), [](const QuietTime& a, const QuietTime& b) {
        return a.until - a.from > b.until - b.from;
      });
      times_.erase(kept, times_.end());
      std::ranges::sort(times_, [](const QuietTime& a, const QuietTime& b) { return a.from < b.from; });
    }
    if (end) times_.push_back(*end);
    return std::move(times_);
  }

 private:
  std::int64_t shortest_;
  std::optional<std::int64_t> last_;
  std::vector<QuietTime> times_;  // none shorter than a part of the time, so there are not many
};

std::vector<Nanoseconds> sorted_times(std::vector<Nanoseconds> times) {
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

// Of the moments that the analysis looked at: the worst, the largest, the end, and others spread evenly.
std::vector<Nanoseconds> heap_map_times(const HeapFragmentation& fragmentation) {
  const auto& moments = fragmentation.moments;
  std::vector<Nanoseconds> times;
  if (moments.empty()) return times;
  for (const std::size_t chosen : {fragmentation.worst, fragmentation.largest, moments.size() - 1})
    times.push_back(moments[chosen].time);
  const std::size_t more = std::min(moments.size(), kMostHeapMaps - times.size());
  for (std::size_t i = 0; i < more; ++i) times.push_back(moments[i * moments.size() / more].time);
  return sorted_times(std::move(times));
}

// Of a full recording: the fullest moment of a stretch often begins a quiet time.
std::vector<LiveMoment> exact_moments(recording::Recording& recording, std::vector<Nanoseconds> fullest,
                                      const std::vector<QuietTime>& quiet) {
  for (const QuietTime& time : quiet) fullest.push_back({time.from});
  std::vector<LiveMoment> moments = live_at(recording, sorted_times(std::move(fullest)));
  auto next = quiet.begin();
  for (LiveMoment& moment : moments) {
    while (next != quiet.end() && next->from < moment.time.count) ++next;
    if (next != quiet.end() && next->from == moment.time.count) moment.until = Nanoseconds{next->until};
  }
  return moments;
}

// Half B tells of the moments that half A chose. How long nothing happened is no choice by what was live:
// there all samples have a say, and so a quiet time is told apart from the moment that it follows.
std::vector<LiveMoment> estimated_moments(recording::Recording& recording, std::vector<Nanoseconds> fullest,
                                          const std::vector<QuietTime>& quiet) {
  std::vector<LiveMoment> moments = live_at(recording, sorted_times(std::move(fullest)), SampleHalf::b);
  std::vector<Nanoseconds> ends;
  for (const QuietTime& time : quiet) ends.push_back({time.until});
  std::vector<LiveMoment> told = live_at(recording, ends);
  const Nanoseconds last_chosen = moments.back().time;  // there is the peak at least
  for (std::size_t i = 0; i < told.size(); ++i) {
    told[i].time = {std::min(quiet[i].from + 1, quiet[i].until)};
    if (told[i].time == last_chosen) continue;  // the last event is the end
    told[i].until = Nanoseconds{quiet[i].until};
    moments.push_back(std::move(told[i]));
  }
  std::ranges::stable_sort(moments, [](const LiveMoment& a, const LiveMoment& b) { return a.time < b.time; });
  return moments;
}

std::uint64_t begin_of(const LiveBlock& block) { return block.address - kChunkHeader; }
std::uint64_t end_of(const LiveBlock& block) { return begin_of(block) + chunk_bytes(block.size); }

void fill(HeapExtent& extent, std::uint64_t cell_bytes, std::uint64_t begin, std::uint64_t end) {
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t cell = (at - extent.address) / cell_bytes;
    const std::uint64_t until = std::min(end, extent.address + (cell + 1) * cell_bytes);
    extent.live_bytes[cell] += until - at;
    at = until;
  }
}

}  // namespace

HeapMap map_of_heap(std::vector<LiveBlock> blocks, Nanoseconds time, const HeapLayout& layout) {
  HeapMap map;
  map.figures = fragmentation_of(blocks, time, layout);
  blocks = blocks_of_heap(std::move(blocks), layout);
  std::erase_if(blocks, [](const LiveBlock& block) { return block.address < kChunkHeader; });
  // Another allocator, or a damaged file, packs closer than glibc: a block ends where the next one begins.
  const auto end_at = [&](std::size_t i) {
    return i + 1 < blocks.size() ? std::min(end_of(blocks[i]), begin_of(blocks[i + 1])) : end_of(blocks[i]);
  };
  std::vector<std::size_t> last;  // block of each extent
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i == 0 || !layout.is_one_heap(blocks[i - 1].address, blocks[i].address)) {
      if (map.extents.size() == kMostExtents) break;
      map.extents.push_back({begin_of(blocks[i]), 0, {}});
      last.emplace_back();
    }
    map.extents.back().bytes = end_at(i) - map.extents.back().address;
    last.back() = i;
  }
  std::uint64_t bytes = 0;
  for (const HeapExtent& extent : map.extents) bytes += extent.bytes;
  map.cell_bytes = std::bit_ceil(std::max(kSmallestCell, bytes / kMostCells + 1));
  std::size_t block = 0;
  for (std::size_t e = 0; e < map.extents.size(); ++e) {
    HeapExtent& extent = map.extents[e];
    extent.live_bytes.resize((extent.bytes + map.cell_bytes - 1) / map.cell_bytes);
    for (; block <= last[e]; ++block) fill(extent, map.cell_bytes, begin_of(blocks[block]), end_at(block));
  }
  return map;
}

PageMoments take_page_moments(recording::Recording& recording, const RecordingAnalysis& analysis) {
  if (!analysis.host_recorded) return {};
  const std::size_t most = std::clamp(kMostMomentStacks / std::max<std::size_t>(1, analysis.stacks.size()),
                                      kFewestMoments, kMostMoments);
  FullestMoments fullest(analysis.duration, most - 2);  // and the peak and the end
  QuietTimes quiet(fullest.width() / 2);
  const std::vector<Nanoseconds> map_times =
      analysis.fragmentation ? heap_map_times(*analysis.fragmentation) : std::vector<Nanoseconds>{};

  const HeapLayout layout = heap_layout_of(recording.info());
  PageMoments moments;
  LiveMap live;
  std::int64_t bytes = 0;  // by half A of the samples, which chooses the moments
  const auto take_maps_before = [&](std::int64_t time) {
    while (moments.heaps.size() < map_times.size() && map_times[moments.heaps.size()].count < time) {
      std::vector<LiveBlock> blocks;
      blocks.reserve(live.size());
      live.for_each([&](const LiveBlock& block) { blocks.push_back(block); });
      moments.heaps.push_back(map_of_heap(std::move(blocks), map_times[moments.heaps.size()], layout));
    }
  };
  recording.for_each_event([&](const MemoryEvent& event) {
    const std::int64_t before = bytes;
    LiveBlock block, replaced;
    if (event.kind == MemoryEventKind::release) {
      take_maps_before(event.time.count);
      if (live.take(event.address, block)) bytes -= block.bytes_in(SampleHalf::a);
    } else if (is_allocation(event)) {
      take_maps_before(event.time.count);
      if (!make_block(event, 0, event.time.count, block)) return;
      if (live.insert(block, replaced)) bytes -= replaced.bytes_in(SampleHalf::a);
      bytes += block.bytes_in(SampleHalf::a);
    } else {
      return;
    }
    fullest.changed(event.time.count, before, bytes);
    quiet.changed(event.time.count);
  });
  take_maps_before(std::numeric_limits<std::int64_t>::max());
  live = LiveMap();  // the next pass has its own

  std::vector<Nanoseconds> times = fullest.times();
  times.push_back(analysis.peak_time);
  const std::vector<QuietTime> quiet_times =
      quiet.take(analysis.duration, std::min(kMostQuietTimes, most / 2));
  moments.live = analysis.full ? exact_moments(recording, std::move(times), quiet_times)
                               : estimated_moments(recording, std::move(times), quiet_times);
  return moments;
}

}  // namespace headroom::report
