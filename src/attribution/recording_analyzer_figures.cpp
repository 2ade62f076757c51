// The end of the main pass of analyze_recording(): turns accounts into figures.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "attribution/recording_analyzer.h"

namespace headroom::attribution {
namespace {

// One sample more or less is always possible; `unit` is what one sample represents. The error is at most
// `most`, which is everything that was sampled. If that is 0, the value is exact.
Figure figure_of(std::int64_t value, double variance, double unit, double most) {
  if (most <= 0) return {value, std::nullopt};
  return {value, std::min(most, std::sqrt(std::max(variance, 0.0) + unit * unit))};
}

}  // namespace

void RecordingAnalyzer::finish_heap(bool has_older_blocks) {
  const auto small_bytes = static_cast<double>(small_bytes_);
  const auto small_blocks = static_cast<double>(result_.counted_allocations + result_.sampled_allocations);
  const auto period = static_cast<double>(sample_period_);
  const double blocks_a_period = small_bytes > 0 ? period * small_blocks / small_bytes : 0;
  // Half of the samples are a sample with twice the period.
  const double halves = chosen_peak_ ? 2 : 1;
  // Below one period, the counted sum says more than the samples.
  const bool is_little = small_bytes > 0 && small_bytes < period;
  result_.peak_bytes = figure_of(peak_.bytes, peak_.bytes_variance, halves * period, small_bytes);
  result_.peak_blocks =
      figure_of(peak_.blocks, peak_.blocks_variance, halves * blocks_a_period, small_blocks);
  result_.leaked_bytes = figure_of(heap_.bytes, heap_.bytes_variance, period, small_bytes);
  if (is_little) {
    result_.peak_bytes.at_most = most_possible();
    result_.leaked_bytes.at_most = std::max(heap_.bytes, large_live() + small_bytes_);
  }
  // All allocations and releases are counted, so the number of live blocks is exact. It is not exact after
  // releases of blocks from before the recording, because small ones are counted like any other.
  if (full_)
    result_.leaked_blocks.value = heap_.blocks;
  else if (!has_older_blocks && result_.unknown_releases == 0 && result_.deallocations <= result_.allocations)
    result_.leaked_blocks.value = result_.allocations - result_.deallocations;
  else
    result_.leaked_blocks = figure_of(heap_.blocks, heap_.blocks_variance, blocks_a_period, small_blocks);
  if (full_) result_.temporary = temporary_;
  result_.mapped.end_bytes = mappings_.mapped_bytes();
  result_.mapped.reserved_peak_bytes = mappings_.peak_reserved_bytes();
  result_.mapped.reserved_end_bytes = mappings_.reserved_bytes();
  result_.mapped.stacks = mappings_.by_stack();
  result_.mapped.layers = mappings_.by_layer();
}

double RecordingAnalyzer::bounded(double variance) const {
  const auto most = static_cast<double>(small_bytes_);
  return std::min(variance, most * most);
}

LiveFigures RecordingAnalyzer::live_figures(const LiveAccount& account) const {
  const LiveCounter& live = account.live;
  return {live.bytes_at(peak_mark_),      live.blocks_at(peak_mark_),   live.bytes, live.blocks,
          bounded(account.peak_variance), bounded(account.end_variance)};
}

std::int64_t RecordingAnalyzer::most_possible() const {
  if (full_) return std::numeric_limits<std::int64_t>::max();
  std::int64_t most = most_large_;
  add_wrapping(most, small_bytes_);
  return std::max(most, peak_.bytes);
}

void RecordingAnalyzer::finish_stacks(std::uint32_t count) {
  const std::int64_t most_bytes = most_possible();
  result_.stacks.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    StackFigures& figures = result_.stacks[i];
    figures.stack = StackId{i};
    if (i >= stacks_.size()) continue;
    const StackAccount& account = stacks_[i];
    figures.allocations = account.allocations;
    figures.allocated_bytes = account.allocated_bytes;
    figures.temporary = account.temporary;
    figures.live = live_figures(account);
    figures.outside_peak_bytes = figures.live.peak_bytes - account.layered.live.bytes_at(peak_mark_);
    figures.outside_peak_variance = bounded(account.peak_variance - account.layered.peak_variance);
    figures.most_blocks = std::max(account.most_blocks, figures.live.peak_blocks);
    figures.most_bytes = std::max(std::min(account.most_bytes, most_bytes), figures.live.peak_bytes);
    if (account.sampled) figures.most_blocks = std::min(figures.most_blocks, result_.allocations);
    if (account.block_bytes < StackAccount::kMixed)
      figures.block_bytes = static_cast<std::int64_t>(account.block_bytes);
    figures.sampled = account.sampled;
  }
}

void RecordingAnalyzer::finish_layers() {
  const LayerTree& tree = layers_.tree();
  const std::int64_t most_bytes = most_possible();
  result_.layers.resize(layers_.size());
  std::vector<PeakOfHalves> process(layers_.size());  // with the inner layers
  // Children come after their parents. So from last to first, each is complete before its parent needs it.
  for (LayerIndex i = static_cast<LayerIndex>(layers_.size()); i-- > 0;) {
    const LayerAccount& account = layers_[i];
    LayerFigures& layer = result_.layers[i];
    layer.path = tree[i].path;
    layer.key = tree[i].key;
    layer.source = tree[i].source;
    layer.counts_known = full_ || (layer.source != recording::ScopeSource::node &&
                                   layer.source != recording::ScopeSource::weights);
    layer.entries = account.entries;
    layer.self = live_figures(account.self);
    if (for_tracing_mark_ == peak_mark_ && i < for_tracing_.size())
      layer.tracing_peak_bytes = for_tracing_[i];
    if (account.reserved_sum > 0) layer.average_fragmentation = account.wasted_sum / account.reserved_sum;
    process[i].join(account.process);
    layer.process_peak = std::min(process[i].at_most, peak_.bytes);
    layer.duration += {i == 0 ? 0 : account.time_ns};
    add_wrapping(layer.allocations, account.allocations);
    add_wrapping(layer.releases, account.releases);
    add_wrapping(layer.allocated_bytes, account.allocated_bytes);
    layer.live.add(layer.self);
    // Estimates may contradict each other, but a layer's peak is at least its memory at the heap's peak.
    layer.peak_allocated = std::max(std::min(account.held.at_most, most_bytes), layer.live.peak_bytes);
    // A chunk is at most 32 bytes larger than the request.
    std::int64_t most_reserved = most_bytes;
    if (!full_)
      add_wrapping(most_reserved,
                   static_cast<std::int64_t>(32 * static_cast<std::uint64_t>(result_.allocations)));
    layer.peak_reserved = std::max(std::min(account.reserved.at_most, most_reserved), layer.peak_allocated);
    layer.live.peak_variance = bounded(layer.live.peak_variance);
    layer.live.end_variance = bounded(layer.live.end_variance);
    if (tree[i].depth < 2) continue;
    layer.parent = tree[i].parent;
    LayerFigures& parent = result_.layers[tree[i].parent];
    process[tree[i].parent].join(process[i]);
    parent.duration += layer.duration;
    add_wrapping(parent.allocations, layer.allocations);
    add_wrapping(parent.releases, layer.releases);
    add_wrapping(parent.allocated_bytes, layer.allocated_bytes);
    parent.live.add(layer.live);
  }
}

void RecordingAnalyzer::finish_classes() {
  for (unsigned i = 0; i < classes_.size(); ++i) {
    const SizeClassAccount& account = classes_[i];
    if (account.allocations == 0) continue;
    const std::uint64_t smallest = i == 0 ? 0 : std::uint64_t{1} << (i - 1);
    result_.size_classes.push_back({smallest, i == 0 ? 0 : smallest * 2 - 1, account.allocations,
                                    account.allocated_bytes, live_figures(account)});
  }
  for (unsigned i = 0; i < lifetimes_.size(); ++i)
    if (lifetimes_[i].blocks != 0)
      result_.lifetimes.push_back({{static_cast<std::int64_t>(std::uint64_t{1} << std::min(i, 62U))},
                                   lifetimes_[i].blocks,
                                   lifetimes_[i].bytes});
}

void RecordingAnalyzer::finish_threads() {
  for (std::uint32_t i = 0; i < threads_.size(); ++i) {
    const ThreadAccount& account = threads_[i];
    result_.threads.push_back({ThreadIndex{i}, account.allocations, account.releases, account.allocated_bytes,
                               live_figures(account)});
  }
}

void RecordingAnalyzer::find_reuse() {
  // A pool pays off where a place allocates many times what it needs at once.
  constexpr std::int64_t kLeastUses = 10;
  const double seconds = result_.duration.seconds();
  for (const StackFigures& stack : result_.stacks) {
    if (stack.stack.index == 0 || stack.most_blocks <= 0 ||
        stack.allocations < kLeastUses * stack.most_blocks)
      continue;
    ReuseCandidate candidate;
    candidate.stack = stack.stack;
    candidate.calls_saved = stack.allocations - stack.most_blocks;
    if (!stack.sampled) {
      candidate.most_blocks = stack.most_blocks;
      candidate.pool_bytes = stack.most_bytes;
    }
    candidate.bytes_not_churned = stack.allocated_bytes - stack.most_bytes;
    if (seconds > 0) candidate.calls_saved_per_second = static_cast<double>(candidate.calls_saved) / seconds;
    result_.reuse.push_back(candidate);
  }
  std::ranges::sort(result_.reuse, [](const ReuseCandidate& a, const ReuseCandidate& b) {
    if (a.bytes_not_churned != b.bytes_not_churned) return a.bytes_not_churned > b.bytes_not_churned;
    return a.stack < b.stack;
  });
  if (result_.reuse.size() > options_.reuse_candidates) result_.reuse.resize(options_.reuse_candidates);
}

}  // namespace headroom::attribution
