#include "analysis/recording_analysis.h"

#include <limits>

#include "analysis/peak_moment.h"
#include "analysis/profile_memory.h"
#include "analysis/recording_analyzer.h"

namespace headroom::analysis {

RecordingAnalysis analyze_recording(recording::Recording& recording, const AnalysisOptions& options) {
  RecordingAnalyzer analyzer(recording, options, peak_moment_of_samples(recording));
  // Events wait in a batch while the memory that they will touch is on its way.
  std::array<MemoryEvent, 32> batch;
  std::size_t waiting = 0;
  const auto visit_batch = [&] {
    for (std::size_t i = 0; i < waiting; ++i) analyzer.visit(batch[i]);
    waiting = 0;
  };
  recording.for_each_event([&](const MemoryEvent& event) {
    if (!analyzer.needs_prefetch()) return analyzer.visit(event);
    analyzer.prefetch(event);
    batch[waiting] = event;
    if (++waiting == batch.size()) visit_batch();
  });
  visit_batch();
  RecordingAnalysis analysis = analyzer.finish(recording);
  find_profile_memory(recording, analysis);
  return analysis;
}

std::vector<LiveMoment> live_at(recording::Recording& recording, std::span<const Nanoseconds> times,
                                SampleHalf half) {
  LiveMap live;
  LayerLedger layers(recording);
  std::int64_t bytes = 0, blocks = 0;
  std::vector<std::int64_t> by_stack, by_layer;
  std::vector<LiveMoment> moments;
  const auto add = [](std::vector<std::int64_t>& sums, std::uint32_t index, std::int64_t by) {
    if (index >= sums.size()) sums.resize(index + 1);
    add_wrapping(sums[index], by);
  };
  const auto change = [&](const LiveBlock& block, std::int64_t sign) {
    const std::int64_t changed = sign * block.bytes_in(half);
    add_wrapping(bytes, changed);
    add_wrapping(blocks, sign * block.blocks_in(half));
    add(by_stack, block.stack, changed);
    add(by_layer, block.layer, changed);
  };
  const auto take_moments_before = [&](std::int64_t time) {
    while (moments.size() < times.size() && times[moments.size()].count < time)
      moments.push_back({times[moments.size()], bytes, blocks, by_stack, by_layer});
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

}  // namespace headroom::analysis
