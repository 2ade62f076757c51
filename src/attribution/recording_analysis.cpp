#include "attribution/recording_analysis.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "attribution/fragmentation_moments.h"
#include "attribution/leak_releases.h"
#include "attribution/peak_moment.h"
#include "attribution/profile_memory.h"
#include "attribution/recording_analyzer.h"
#include "attribution/session_peaks.h"
#include "attribution/small_allocations.h"

namespace headroom::attribution {

RecordingAnalysis analyze_recording(recording::Recording& recording, const AnalysisOptions& options) {
  std::optional<SampledPeak> peak;
  if (const auto moment = peak_moment_of_samples(recording)) {
    const Nanoseconds times[] = {*moment, {std::numeric_limits<std::int64_t>::max()}};
    const std::vector<SmallAllocations> until = small_allocations_until(recording, times);
    peak = {*moment, until[0], until[1]};
  }
  RecordingAnalyzer analyzer(recording, options, peak);
  // Events wait in a ring while the memory that they will touch is on its way. It is asked for in groups: so
  // the processor looks for several pages at once.
  constexpr std::size_t kAhead = 48, kTogether = 16;
  std::array<MemoryEvent, kAhead + kTogether> ring;
  std::size_t arrived = 0, visited = 0;
  recording.for_each_event([&](const MemoryEvent& event) {
    if (!analyzer.needs_prefetch()) return analyzer.visit(event);
    ring[arrived++ % ring.size()] = event;
    if (arrived % kTogether != 0) return;
    for (std::size_t i = arrived - kTogether; i < arrived; ++i) analyzer.prefetch(ring[i % ring.size()]);
    while (visited + kAhead < arrived) analyzer.visit(ring[visited++ % ring.size()]);
  });
  while (visited < arrived) analyzer.visit(ring[visited++ % ring.size()]);
  RecordingAnalysis analysis = analyzer.finish(recording);
  if (analysis.fragmentation)
    add_fragmentation_moments(
        recording, analyzer.fragmentation_passed_over(analysis.events <= kCheaplyReadAgain), analysis);
  const TracersOwnMemory tracers_own = find_profile_memory(recording, analysis);
  analysis.leaks = analyzer.leaks(tracers_own);
  find_release_times(recording, analysis.leaks);
  std::erase_if(analysis.reuse, [&](const ReuseCandidate& candidate) {
    return tracers_own.allocates(candidate.stack.index);
  });
  find_session_peaks(recording, analysis);
  return analysis;
}

std::vector<LiveMoment> live_at(recording::Recording& recording, std::span<const Nanoseconds> times,
                                SampleHalf half) {
  const std::vector<SmallAllocations> bounds =
      recording.info().full ? std::vector(times.size(), kNoBound) : small_allocations_until(recording, times);
  LiveMap live;
  LayerLedger layers(recording);
  LiveMoment now;
  SmallAllocations estimated;  // the part of it that samples stand for
  std::vector<LiveMoment> moments;
  const auto add = [](std::vector<std::int64_t>& sums, std::uint32_t index, std::int64_t by) {
    if (index >= sums.size()) sums.resize(index + 1);
    add_wrapping(sums[index], by);
  };
  const auto add_block = [&](LiveMoment& moment, const LiveBlock& block, std::int64_t bytes,
                             std::int64_t blocks) {
    add_wrapping(moment.bytes, bytes);
    add_wrapping(moment.blocks, blocks);
    add(moment.bytes_by_stack, block.stack, bytes);
    add(moment.bytes_by_layer, block.layer, bytes);
    add(moment.bytes_by_thread, block.thread, bytes);
    add(moment.bytes_by_class, static_cast<std::uint32_t>(std::bit_width(block.size)), bytes);
  };
  const auto change = [&](const LiveBlock& block, std::int64_t sign) {
    const std::int64_t bytes = sign * block.bytes_in(half), blocks = sign * block.blocks_in(half);
    add_block(now, block, bytes, blocks);
    if (block.weight == 1) return;
    add_wrapping(estimated.bytes, bytes);
    add_wrapping(estimated.blocks, blocks);
  };
  const auto bring_down = [&](LiveMoment& moment, const BoundedSamples& bounded) {
    live.for_each([&](const LiveBlock& block) {
      if (block.weight == 1) return;
      const std::int64_t bytes = block.bytes_in(half), blocks = block.blocks_in(half);
      add_block(moment, block, bounded.bytes(bytes) - bytes, bounded.blocks(blocks) - blocks);
    });
  };
  const auto take_moments_before = [&](std::int64_t time) {
    while (moments.size() < times.size() && times[moments.size()].count < time) {
      const BoundedSamples bounded(estimated, bounds[moments.size()]);
      now.time = times[moments.size()];
      moments.push_back(now);
      if (!bounded.changes_nothing()) bring_down(moments.back(), bounded);
    }
  };
  recording.for_each_event([&](const MemoryEvent& event) {
    if (moments.size() == times.size()) return;
    take_moments_before(event.time.count);
    LiveBlock block;
    if (event.kind == MemoryEventKind::release) {
      if (live.take(event.address, block)) change(block, -1);
      return;
    }
    if (!is_allocation(event) || !make_block(event, layers.layer_of(event.scope), event.time.count, block))
      return;
    LiveBlock replaced;
    if (live.insert(block, replaced)) change(replaced, -1);
    change(block, 1);
  });
  take_moments_before(std::numeric_limits<std::int64_t>::max());
  return moments;
}

}  // namespace headroom::attribution
