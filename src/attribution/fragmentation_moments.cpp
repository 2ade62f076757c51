#include "attribution/fragmentation_moments.h"

#include <algorithm>
#include <limits>

#include "attribution/layer_ledger.h"

namespace headroom::attribution {
namespace {

constexpr std::size_t kEnough = 32;
// Live blocks that may be sorted for the moments spread over the time: 0.2 s.
constexpr std::int64_t kMostSorted = 2'000'000;

// What was there at `times`, ascending: after the last event up to each.
std::vector<FragmentationMoment> fragmentation_at(recording::Recording& recording,
                                                  const std::vector<Nanoseconds>& times) {
  std::vector<FragmentationMoment> moments;
  LiveMap live;
  LayerLedger layers(recording);
  const HeapLayout layout = heap_layout_of(recording.info());
  const auto take_before = [&](std::int64_t time) {
    for (; moments.size() < times.size() && times[moments.size()].count < time;)
      moments.push_back(fragmentation_of(blocks_of(live), times[moments.size()], layout));
  };
  recording.for_each_event([&](const MemoryEvent& event) {
    if (moments.size() == times.size()) return;
    LiveBlock block, replaced;
    if (event.kind == MemoryEventKind::release) {
      take_before(event.time.count);
      live.take(event.address, block);
    } else if (is_allocation(event)) {
      take_before(event.time.count);
      if (make_block(event, layers.layer_of(event.scope), event.time.count, block))
        live.insert(block, replaced);
    }
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
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  if (times.empty()) return;

  std::vector<FragmentationMoment>& moments = fragmentation.moments;
  const std::vector<FragmentationMoment> more = fragmentation_at(recording, times);
  for (std::size_t i = 0; i < more.size(); ++i) {
    // While nothing changes its begin and its end are enough.
    const bool goes_on =
        i > 0 && i + 1 < more.size() && is_same(more[i - 1], more[i]) && is_same(more[i], more[i + 1]);
    if (!goes_on) moments.push_back(more[i]);
  }
  std::stable_sort(moments.begin(), moments.end(),
                   [](const auto& a, const auto& b) { return a.time < b.time; });
  fragmentation.find_extremes();
}

}  // namespace headroom::attribution
