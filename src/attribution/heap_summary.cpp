#include "attribution/heap_summary.h"

#include <algorithm>

namespace headroom::attribution {

[[gnu::flatten]] void HeapSummary::add_waiting() {
  if (live_.outgrew_the_cache()) {
    for (std::size_t i = 0; i < count_; ++i) live_.prefetch(waiting_[i].address);
    for (std::size_t i = 0; i < count_; ++i) live_.prefetch_block(waiting_[i].address);
  }
  for (std::size_t i = 0; i < count_; ++i) add(waiting_[i]);
  count_ = 0;
}

inline void HeapSummary::add(const MemoryEvent& event) {
  ++counts_.events;
  switch (event.kind) {
    case MemoryEventKind::allocate:
      return allocate(event);
    case MemoryEventKind::release:
      return release(event);
    case MemoryEventKind::map:
      ++counts_.mapped.maps;
      add_wrapping(counts_.mapped.mapped_bytes, static_cast<std::int64_t>(event.size));
      break;
    case MemoryEventKind::unmap:
      ++counts_.mapped.unmaps;
      break;
    case MemoryEventKind::reserve:
    case MemoryEventKind::make_accessible:
      break;
    case MemoryEventKind::gap:
      ++counts_.gaps;
      add_wrapping(counts_.dropped_events, static_cast<std::int64_t>(event.count));
      return;
    case MemoryEventKind::enter_scope:
      return;
    default:
      needs_whole_recording_ = true;
      return;
  }
  mappings_.apply(event, has_layer(event.kind) ? event.scope.index : 0);
  if (mappings_.peak_bytes() <= counts_.mapped.peak_bytes) return;
  counts_.mapped.peak_bytes = mappings_.peak_bytes();
  mapped_peak_time_ = static_cast<std::uint64_t>(event.time.count);
}

inline void HeapSummary::allocate(const MemoryEvent& event) {
  LiveBlock possible;
  if (!make_block(event, 0, event.time.count, possible) || event.size == kLargestBlock ||
      event.scope.index >= kMostScopes) {
    needs_whole_recording_ = true;
    return;
  }
  const Block block(event.address, event.size, event.scope);
  Block replaced;
  if (live_.insert(block, replaced)) {
    ++counts_.missed_releases;
    const auto size = static_cast<std::int64_t>(replaced.size);
    counter_of(replaced.scope).change(-size, -1, peak_mark_);
    add_wrapping(bytes_, -size);
    --blocks_;
  }
  const auto size = static_cast<std::int64_t>(event.size);
  ++counts_.allocations;
  add_wrapping(counts_.total_allocated_bytes, size);
  counter_of(block.scope).change(size, 1, peak_mark_);
  add_wrapping(bytes_, size);
  ++blocks_;
  if (bytes_ <= peak_bytes_) return;
  peak_bytes_ = bytes_;
  peak_blocks_ = blocks_;
  peak_time_ = static_cast<std::uint64_t>(event.time.count);
  ++peak_mark_;
  counts_.mapped.bytes_at_heap_peak = mappings_.mapped_bytes();
}

inline void HeapSummary::release(const MemoryEvent& event) {
  ++counts_.deallocations;
  Block block;
  if (!live_.take(event.address, block)) {
    ++counts_.unknown_releases;
    return;
  }
  const auto size = static_cast<std::int64_t>(block.size);
  counter_of(block.scope).change(-size, -1, peak_mark_);
  add_wrapping(bytes_, -size);
  --blocks_;
}

std::optional<RecordingAnalysis> HeapSummary::finish(const recording::Recording& recording) const {
  const recording::RecordingInfo& info = recording.info();
  const auto is_of_runtime = [](const recording::Scope& scope) {
    return scope.source == recording::ScopeSource::weights || scope.name == recording::kTracerScope;
  };
  if (needs_whole_recording_ || info.attached || !info.full || !info.host_recorded ||
      info.segments_overwritten > 0 || !info.profiles.empty() ||
      std::ranges::any_of(info.scopes, is_of_runtime))
    return std::nullopt;
  RecordingAnalysis result = counts_;
  result.full = true;
  result.duration = info.duration;
  result.problems = recording.problems();
  add_wrapping(result.dropped_events, static_cast<std::int64_t>(info.events_dropped));
  add_unseen_blocks(info, result);
  result.peak_bytes.value = peak_bytes_;
  result.peak_blocks.value = peak_blocks_;
  result.peak_time = recording.time_of_units(peak_time_);
  result.leaked_bytes.value = bytes_;
  result.leaked_blocks.value = blocks_;
  result.mapped.peak_time = recording.time_of_units(mapped_peak_time_);
  result.mapped.end_bytes = mappings_.mapped_bytes();

  LayerTree tree(recording);
  std::vector<LayerIndex> layer_of_scope;
  for (std::uint32_t scope = 0; scope < scopes_.size(); ++scope)
    layer_of_scope.push_back(scopes_[scope].mark == 0 ? 0 : tree.of(ScopeId{scope}));
  std::vector<MappingShare> mapped = mappings_.by_layer();
  for (MappingShare& share : mapped) share.index = tree.of(ScopeId{share.index});
  result.layers.resize(tree.size());
  for (std::size_t i = 0; i < tree.size(); ++i) {
    const Layer& layer = tree[static_cast<LayerIndex>(i)];
    result.layers[i].path = layer.path;
    result.layers[i].source = layer.source;
  }
  for (std::size_t scope = 0; scope < scopes_.size(); ++scope)
    add_wrapping(result.layers[layer_of_scope[scope]].self.peak_bytes, scopes_[scope].bytes_at(peak_mark_));
  // Scopes of one layer share its mapped memory.
  for (const MappingShare& share : mapped) {
    auto& layers = result.mapped.layers;
    const auto known = std::ranges::find(layers, share.index, &MappingShare::index);
    MappingShare& sum = known != layers.end() ? *known : layers.emplace_back(MappingShare{share.index});
    sum.at_peak_bytes += share.at_peak_bytes;
    sum.end_bytes += share.end_bytes;
  }
  sort_shares(result.mapped.layers);
  return result;
}

}  // namespace headroom::attribution
