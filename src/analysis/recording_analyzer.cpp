#include "analysis/recording_analyzer.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

namespace headroom::analysis {
namespace {

// Samples know nothing of what lies between them, so one more or less is always possible: `unit` is what one
// stands for. No more than `most` can be wrong, which is all that was sampled at all; where that is nothing,
// the value is exact.
Figure figure_of(std::int64_t value, double variance, double unit, double most) {
  if (most <= 0) return {value, std::nullopt};
  return {value, std::min(most, std::sqrt(std::max(variance, 0.0) + unit * unit))};
}

}  // namespace

RecordingAnalyzer::RecordingAnalyzer(const recording::Recording& recording, const AnalysisOptions& options,
                                     const std::optional<SampledPeak>& peak)
    : options_(options),
      full_(recording.info().full),
      sample_period_(recording.info().full ? 0 : recording.info().sample_period_bytes),
      until_peak_(peak ? peak->until_peak : kNoBound),
      in_all_(peak ? peak->in_all : kNoBound),
      peak_is_chosen_(peak.has_value()),
      moment_to_tell_(peak ? peak->moment.count : std::numeric_limits<std::int64_t>::max()),
      layers_(recording),
      stacks_(256),
      timeline_(options.timeline_points, recording.info().duration),
      mappings_(recording.info().page_bytes) {
  for (const recording::Device& device : recording.info().devices)
    if (device.integrated) devices_.set_integrated(device.ordinal);
  for (LayerIndex i = 1; i < layers_.size(); ++i)
    if (layers_.tree()[i].path == recording::kTracersOwnScope) tracers_own_ = i;
}

void RecordingAnalyzer::count(const MemoryEvent& event) {
  const auto blocks = static_cast<std::int64_t>(event.count), bytes = static_cast<std::int64_t>(event.size);
  ThreadAccount& thread = thread_of(event);
  LayerAccount& layer = layers_[layers_.layer_of(event.scope)];
  if (event.kind == MemoryEventKind::release_counters) {
    for (std::int64_t* sum : {&releases_, &thread.releases, &layer.releases}) add_wrapping(*sum, blocks);
    return;
  }
  for (std::int64_t* sum : {&allocations_, &counted_, &thread.allocations, &layer.allocations})
    add_wrapping(*sum, blocks);
  for (std::int64_t* sum :
       {&allocated_bytes_, &small_bytes_, &thread.allocated_bytes, &layer.allocated_bytes})
    add_wrapping(*sum, bytes);
}

void RecordingAnalyzer::change_mappings(const MemoryEvent& event, std::int64_t time) {
  if (event.kind == MemoryEventKind::unmap) {
    ++mapped_.unmaps;
    mappings_.unmap(event.address, event.size);
    return;
  }
  ++mapped_.maps;
  add_wrapping(mapped_.mapped_bytes, static_cast<std::int64_t>(event.size));
  mappings_.map(event.address, event.size);
  if (mappings_.mapped_bytes() > mapped_.peak_bytes) {
    mapped_.peak_bytes = mappings_.mapped_bytes();
    mapped_.peak_time = {time};
  }
}

// The thread goes from its layer to another. What the tracer does in between for itself, such as ending a
// runtime's profile, is neither a cycle of the program nor the end of one: the layer that it interrupts goes
// on.
void RecordingAnalyzer::enter(ThreadAccount& thread, ScopeId scope, std::int64_t time) {
  const LayerIndex from = thread.layer, to = layers_.layer_of(scope);
  layers_[from].time_ns += time - thread.in_layer_since;
  thread.in_layer_since = time;
  thread.scope = scope;
  thread.layer = to;
  if (to == tracers_own_) {
    ++layers_[to].entries;
    layers_[to].process.note(live_bytes().a, live_bytes().b);
    return;
  }
  count_entries(std::exchange(thread.of_program, to), to);
}

// Out of each layer up to what the two have in common, and then in.
void RecordingAnalyzer::count_entries(LayerIndex from, LayerIndex to) {
  const LayerTree& tree = layers_.tree();
  LayerIndex common = from;
  for (LayerIndex other = to; common != other;) {
    LayerIndex& deeper = tree[common].depth >= tree[other].depth ? common : other;
    deeper = tree[deeper].parent;
  }
  // A layer that is only a part of others' paths (a session, of which only the runs are marked) is no cycle.
  for (LayerIndex layer = from; layer != common; layer = tree[layer].parent)
    if (layers_[layer].visited)
      cycles_.ended(layer, tree[layer].depth, heap_.bytes, stacks_.size(),
                    [&](std::size_t stack) { return stacks_[stack].live.bytes; });
  layers_[to].visited = true;
  for (LayerIndex layer = to; layer != common; layer = tree[layer].parent) {
    ++layers_[layer].entries;
    layers_[layer].process.note(live_bytes().a, live_bytes().b);
  }
}

// Of full recordings: of a profile in small blocks samples know next to nothing, and it stays workspace.
void RecordingAnalyzer::released_by_tracer(const LiveBlock& block) {
  if (block.time_ns > peak_time_) return;  // it came after the peak
  if (for_tracing_mark_ != peak_mark_) for_tracing_.clear();
  for_tracing_mark_ = peak_mark_;
  if (block.layer >= for_tracing_.size()) for_tracing_.resize(block.layer + 1);
  add_wrapping(for_tracing_[block.layer], block.bytes());
}

// The moment that half A chose is over: what was live then, as half B has it.
void RecordingAnalyzer::tell_peak() {
  peak_time_ = std::exchange(moment_to_tell_, std::numeric_limits<std::int64_t>::max());
  if (timeline_.is_over({peak_time_}))
    timeline_.begin_point({peak_time_}, live_bytes(), mappings_.mapped_bytes(), layers_);
  const LiveBytes live = live_bytes();
  mapped_.bytes_at_heap_peak = mappings_.mapped_bytes();
  ++peak_mark_;
  layers_.begin_telling(peak_mark_);
  for (SizeClassAccount& size_class : classes_) size_class.live.begin_telling(peak_mark_);
  for (ThreadAccount& thread : threads_) thread.live.begin_telling(peak_mark_);
  for (StackAccount& stack : stacks_) {
    stack.live.begin_telling(peak_mark_);
    stack.layered.begin_telling(peak_mark_);
  }
  SmallAllocations estimated;
  live_.for_each([&](const LiveBlock& block) {
    if (block.weight == 1) return;
    add_wrapping(estimated.bytes, block.bytes_in(SampleHalf::b));
    add_wrapping(estimated.blocks, block.blocks_in(SampleHalf::b));
  });
  const BoundedSamples bounded(estimated, until_peak_);
  live_.for_each([&](const LiveBlock& block) {
    std::int64_t bytes = block.bytes_in(SampleHalf::b), blocks = block.blocks_in(SampleHalf::b);
    if (blocks == 0) return;
    const double weight = block.weight == 1 ? 1 : block.half_weight();
    const double variance = sample_variance(weight, bytes);
    if (weight != 1) {
      peak_.bytes_variance += variance;
      peak_.blocks_variance += sample_variance(weight, blocks);
      bytes = bounded.bytes(bytes);
      blocks = bounded.blocks(blocks);
    }
    add_wrapping(peak_.bytes, bytes);
    add_wrapping(peak_.blocks, blocks);
    StackAccount& stack = stacks_[block.stack];
    stack.live.tell(bytes, blocks);
    stack.peak_variance += variance;
    if (block.layer != 0) {
      stack.layered.tell(bytes, blocks);
      stack.layered_peak_variance += variance;
    }
    layers_[block.layer].self.tell(bytes, blocks);
    layers_[block.layer].self_peak_variance += variance;
    SizeClassAccount& size_class = classes_[static_cast<std::size_t>(std::bit_width(block.size))];
    size_class.live.tell(bytes, blocks);
    size_class.peak_variance += variance;
    threads_[block.thread].live.tell(bytes, blocks);
    threads_[block.thread].peak_variance += variance;
  });
  LiveBytes told{live.all, live.a, peak_.bytes, live.b};
  add_wrapping(told.b_cut, live.b_cut);
  add_wrapping(told.b_cut, -peak_.bytes);
  timeline_.choose_now(told);
}

// What is live at the end, by all samples, is no more than was allocated.
void RecordingAnalyzer::bound_end() {
  SmallAllocations estimated;
  live_.for_each([&](const LiveBlock& block) {
    if (block.weight == 1) return;
    add_wrapping(estimated.bytes, block.bytes());
    add_wrapping(estimated.blocks, block.blocks());
  });
  const BoundedSamples bounded(estimated, in_all_);
  if (bounded.changes_nothing()) return;
  live_.for_each([&](const LiveBlock& block) {
    if (block.weight == 1) return;
    const std::int64_t bytes = bounded.bytes(block.bytes()) - block.bytes();
    const std::int64_t blocks = bounded.blocks(block.blocks()) - block.blocks();
    add_wrapping(heap_.bytes, bytes);
    add_wrapping(heap_.blocks, blocks);
    add_wrapping(sampled_live_, bytes);
    StackAccount& stack = stacks_[block.stack];
    stack.live.change(bytes, blocks, peak_mark_);
    if (block.layer != 0) stack.layered.change(bytes, blocks, peak_mark_);
    layers_[block.layer].self.change(bytes, blocks, peak_mark_);
    classes_[static_cast<std::size_t>(std::bit_width(block.size))].live.change(bytes, blocks, peak_mark_);
    threads_[block.thread].live.change(bytes, blocks, peak_mark_);
  });
}

void RecordingAnalyzer::sum_end_variances() {
  live_.for_each([&](const LiveBlock& block) {
    const double variance = sample_variance(block.weight, block.bytes());
    stacks_[block.stack].end_variance += variance;
    layers_[block.layer].self_end_variance += variance;
    classes_[static_cast<std::size_t>(std::bit_width(block.size))].end_variance += variance;
    threads_[block.thread].end_variance += variance;
  });
}

RecordingAnalysis RecordingAnalyzer::finish(const recording::Recording& recording) {
  const recording::RecordingInfo& info = recording.info();
  if (peak_is_chosen_ && moment_to_tell_ <= last_time_) tell_peak();
  if (!full_) {
    sum_end_variances();
    bound_end();
  }
  for (ThreadAccount& thread : threads_) layers_[thread.layer].time_ns += last_time_ - thread.in_layer_since;

  RecordingAnalysis result;
  result.full = full_;
  result.duration = {std::max(last_time_, info.duration.count)};
  result.problems = recording.problems();
  if (implausible_ > 0)
    result.problems.push_back(
        fmt::format("{} allocations claim impossible sizes: they were left out", implausible_));
  result.gaps = gaps_;
  result.dropped_events = gap_events_;
  add_wrapping(result.dropped_events, static_cast<std::int64_t>(info.events_dropped));
  result.complete = info.closed && result.dropped_events == 0 && gaps_ == 0 &&
                    info.segments_overwritten == 0 && result.problems.empty();
  finish_heap(result);
  finish_stacks(result, recording.stacks().size());
  finish_layers(result);
  finish_classes(result);
  finish_threads(result);
  find_reuse(result);
  result.devices = devices_.finish();

  result.timeline =
      timeline_.finish(heap_.bytes, mappings_.mapped_bytes(), layers_, options_.timeline_layers);
  std::vector<bool> sampled(stacks_.size());
  for (std::size_t i = 0; i < stacks_.size(); ++i) sampled[i] = stacks_[i].sampled;
  result.leaks = cycles_.verdict(layers_.tree(), sample_period_, sampled);
  if (full_) result.fragmentation = fragmentation_.finish(live_, {last_time_});
  return result;
}

void RecordingAnalyzer::finish_heap(RecordingAnalysis& result) const {
  result.events = events_;
  result.allocations = allocations_;
  result.deallocations = releases_;
  result.total_allocated_bytes = allocated_bytes_;
  result.sampled_allocations = sampled_;
  result.counted_allocations = counted_;
  result.unknown_releases = unknown_releases_;
  result.missed_releases = missed_releases_;
  const auto small_bytes = static_cast<double>(small_bytes_);
  const auto small_blocks = static_cast<double>(counted_ + sampled_);
  const auto period = static_cast<double>(sample_period_);
  const double blocks_a_period = small_bytes > 0 ? period * small_blocks / small_bytes : 0;
  // Half of the samples are a sample of twice the period.
  const double halves = peak_is_chosen_ ? 2 : 1;
  // Of less than a period samples say next to nothing; what was counted says more.
  const bool is_little = small_bytes > 0 && small_bytes < period;
  result.peak_bytes = figure_of(peak_.bytes, peak_.bytes_variance, halves * period, small_bytes);
  result.peak_blocks = figure_of(peak_.blocks, peak_.blocks_variance, halves * blocks_a_period, small_blocks);
  result.peak_time = {peak_time_};
  result.leaked_bytes = figure_of(heap_.bytes, heap_.bytes_variance, period, small_bytes);
  if (is_little) {
    result.peak_bytes.at_most = most_possible();
    result.leaked_bytes.at_most = std::max(heap_.bytes, large_live() + small_bytes_);
  }
  // Every allocation and every release was counted, so how many are left is exact, unless there are releases
  // of blocks from before the recording: a small one of those is counted like any other.
  if (full_)
    result.leaked_blocks.value = heap_.blocks;
  else if (unknown_releases_ == 0 && releases_ <= allocations_)
    result.leaked_blocks.value = allocations_ - releases_;
  else
    result.leaked_blocks = figure_of(heap_.blocks, heap_.blocks_variance, blocks_a_period, small_blocks);
  if (full_) result.temporary = temporary_;
  result.mapped = mapped_;
  result.mapped.end_bytes = mappings_.mapped_bytes();
}

LiveFigures RecordingAnalyzer::live_figures(const LiveCounter& counter) const {
  return {counter.bytes_at(peak_mark_), counter.blocks_at(peak_mark_), counter.bytes, counter.blocks};
}

double RecordingAnalyzer::bounded(double variance) const {
  const auto most = static_cast<double>(small_bytes_);
  return std::min(variance, most * most);
}

LiveFigures RecordingAnalyzer::live_figures(const LiveCounter& counter, double peak_variance,
                                            double end_variance) const {
  LiveFigures figures = live_figures(counter);
  figures.peak_variance = bounded(peak_variance);
  figures.end_variance = bounded(end_variance);
  return figures;
}

std::int64_t RecordingAnalyzer::most_possible() const {
  if (full_) return std::numeric_limits<std::int64_t>::max();
  std::int64_t most = most_large_;
  add_wrapping(most, small_bytes_);
  return std::max(most, peak_.bytes);
}

void RecordingAnalyzer::finish_stacks(RecordingAnalysis& result, std::uint32_t count) const {
  const std::int64_t most_bytes = most_possible();
  result.stacks.resize(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    StackFigures& figures = result.stacks[i];
    figures.stack = StackId{i};
    if (i >= stacks_.size()) continue;
    const StackAccount& account = stacks_[i];
    figures.allocations = account.allocations;
    figures.allocated_bytes = account.allocated_bytes;
    figures.temporary = account.temporary;
    figures.live = live_figures(account.live, account.peak_variance, account.end_variance);
    figures.outside_peak_bytes = figures.live.peak_bytes - account.layered.bytes_at(peak_mark_);
    figures.outside_peak_variance = bounded(account.peak_variance - account.layered_peak_variance);
    figures.most_blocks = std::max(account.most_blocks, figures.live.peak_blocks);
    figures.most_bytes = std::max(std::min(account.most_bytes, most_bytes), figures.live.peak_bytes);
    if (account.sampled) {
      figures.allocations = std::min(figures.allocations, allocations_);
      figures.allocated_bytes = std::min(figures.allocated_bytes, allocated_bytes_);
      figures.most_blocks = std::min(figures.most_blocks, allocations_);
    }
    if (account.block_bytes < StackAccount::kMixed)
      figures.block_bytes = static_cast<std::int64_t>(account.block_bytes);
    figures.sampled = account.sampled;
  }
}

void RecordingAnalyzer::finish_layers(RecordingAnalysis& result) const {
  const LayerTree& tree = layers_.tree();
  const std::int64_t most_bytes = most_possible();
  result.layers.resize(layers_.size());
  std::vector<PeakOfHalves> process(layers_.size());  // with the layers inside
  // Children come after their parents: from the last to the first, each is whole before it is added above.
  for (LayerIndex i = static_cast<LayerIndex>(layers_.size()); i-- > 0;) {
    const LayerAccount& account = layers_[i];
    LayerFigures& layer = result.layers[i];
    layer.path = tree[i].path;
    layer.source = tree[i].source;
    layer.counts_known = full_ || layer.source != recording::ScopeSource::node;
    layer.entries = account.entries;
    layer.self = live_figures(account.self, account.self_peak_variance, account.self_end_variance);
    if (for_tracing_mark_ == peak_mark_ && i < for_tracing_.size())
      layer.tracing_peak_bytes = for_tracing_[i];
    if (account.reserved_sum > 0) layer.average_fragmentation = account.wasted_sum / account.reserved_sum;
    process[i].join(account.process);
    layer.process_peak = std::min(process[i].at_most, peak_.bytes);
    layer.duration += {i == 0 ? 0 : account.time_ns};
    add_wrapping(layer.allocations, account.allocations);
    add_wrapping(layer.releases, account.releases);
    add_wrapping(layer.allocated_bytes, account.allocated_bytes);
    add_wrapping(layer.live.peak_bytes, layer.self.peak_bytes);
    add_wrapping(layer.live.peak_blocks, layer.self.peak_blocks);
    add_wrapping(layer.live.end_bytes, layer.self.end_bytes);
    add_wrapping(layer.live.end_blocks, layer.self.end_blocks);
    layer.live.peak_variance += layer.self.peak_variance;
    layer.live.end_variance += layer.self.end_variance;
    // Estimates of the same kind may contradict each other: the layer's own peak is no less than what it held
    // then.
    layer.peak_allocated = std::max(std::min(account.held.at_most, most_bytes), layer.live.peak_bytes);
    // A chunk is at most 32 bytes larger than what was asked for.
    std::int64_t most_reserved = most_bytes;
    if (!full_)
      add_wrapping(most_reserved, static_cast<std::int64_t>(32 * static_cast<std::uint64_t>(allocations_)));
    layer.peak_reserved = std::max(std::min(account.reserved.at_most, most_reserved), layer.peak_allocated);
    layer.live.peak_variance = bounded(layer.live.peak_variance);
    layer.live.end_variance = bounded(layer.live.end_variance);
    if (tree[i].depth < 2) continue;
    layer.parent = tree[i].parent;
    LayerFigures& parent = result.layers[tree[i].parent];
    process[tree[i].parent].join(process[i]);
    parent.duration += layer.duration;
    add_wrapping(parent.allocations, layer.allocations);
    add_wrapping(parent.releases, layer.releases);
    add_wrapping(parent.allocated_bytes, layer.allocated_bytes);
    add_wrapping(parent.live.peak_bytes, layer.live.peak_bytes);
    add_wrapping(parent.live.peak_blocks, layer.live.peak_blocks);
    add_wrapping(parent.live.end_bytes, layer.live.end_bytes);
    add_wrapping(parent.live.end_blocks, layer.live.end_blocks);
    parent.live.peak_variance += layer.live.peak_variance;
    parent.live.end_variance += layer.live.end_variance;
  }
}

void RecordingAnalyzer::finish_classes(RecordingAnalysis& result) const {
  for (unsigned i = 0; i < classes_.size(); ++i) {
    const SizeClassAccount& account = classes_[i];
    if (account.allocations == 0) continue;
    const std::uint64_t smallest = i == 0 ? 0 : std::uint64_t{1} << (i - 1);
    result.size_classes.push_back({smallest, i == 0 ? 0 : smallest * 2 - 1, account.allocations,
                                   account.allocated_bytes,
                                   live_figures(account.live, account.peak_variance, account.end_variance)});
    if (full_) continue;
    SizeClassFigures& figures = result.size_classes.back();
    figures.allocations = std::min(figures.allocations, allocations_);
    figures.allocated_bytes = std::min(figures.allocated_bytes, allocated_bytes_);
  }
  for (unsigned i = 0; i < lifetimes_.size(); ++i)
    if (lifetimes_[i].blocks != 0)
      result.lifetimes.push_back({{static_cast<std::int64_t>(std::uint64_t{1} << std::min(i, 62U))},
                                  lifetimes_[i].blocks,
                                  lifetimes_[i].bytes});
}

void RecordingAnalyzer::finish_threads(RecordingAnalysis& result) const {
  for (std::uint32_t i = 0; i < threads_.size(); ++i) {
    const ThreadAccount& account = threads_[i];
    result.threads.push_back({ThreadIndex{i}, account.allocations, account.releases, account.allocated_bytes,
                              live_figures(account.live, account.peak_variance, account.end_variance)});
  }
}

void RecordingAnalyzer::find_reuse(RecordingAnalysis& result) const {
  // A pool is worth its code where the same place allocates many times what it needs at once.
  constexpr std::int64_t kLeastUses = 10;
  const double seconds = result.duration.seconds();
  for (const StackFigures& stack : result.stacks) {
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
    result.reuse.push_back(candidate);
  }
  std::sort(result.reuse.begin(), result.reuse.end(), [](const ReuseCandidate& a, const ReuseCandidate& b) {
    if (a.bytes_not_churned != b.bytes_not_churned) return a.bytes_not_churned > b.bytes_not_churned;
    return a.stack < b.stack;
  });
  if (result.reuse.size() > options_.reuse_candidates) result.reuse.resize(options_.reuse_candidates);
}

}  // namespace headroom::analysis
