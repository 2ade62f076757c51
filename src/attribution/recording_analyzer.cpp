#include "attribution/recording_analyzer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "attribution/later_passes.h"

namespace headroom::attribution {
namespace {

// At exit, Python's interpreter releases everything that a script still has, including leaks. So the end of
// the recording does not show them.
bool empties_itself_at_exit(const recording::RecordingInfo& info) {
  return std::ranges::any_of(info.modules, [](const recording::Module& module) {
    const std::string_view path = module.path;
    const std::string_view name = path.substr(path.rfind('/') + 1);
    return name.starts_with("python3") || name.starts_with("libpython3");
  });
}

}  // namespace

RecordingAnalyzer::RecordingAnalyzer(const recording::Recording& recording, const AnalysisOptions& options,
                                     const std::optional<SampledPeak>& peak)
    : options_(options),
      full_(recording.info().full),
      sample_period_(recording.info().full ? 0 : recording.info().sample_period_bytes),
      until_peak_(peak ? peak->until_peak : kNoBound),
      in_all_(peak ? peak->in_all : kNoBound),
      chosen_peak_(peak ? std::optional(peak->moment) : std::nullopt),
      layers_(recording),
      stacks_(256),
      timeline_(options.timeline_points, recording.info().duration),
      mappings_(recording.info().page_bytes),
      devices_(recording.info(), options.timeline_points) {}

inline void RecordingAnalyzer::add(const LiveBlock& block, const LiveShare& share, ThreadAccount& thread,
                                   bool is_sample, std::int64_t time) {
  const std::int64_t bytes = share.bytes.all, blocks = share.blocks;
  const auto size = static_cast<std::int64_t>(block.size);
  ++result_.allocations;
  add_wrapping(result_.total_allocated_bytes, size);
  ++thread.allocations;
  add_wrapping(thread.allocated_bytes, size);
  thread.live.change(bytes, blocks, peak_mark_);

  StackAccount& stack = stack_of(block.stack);
  stack.allocations += blocks;
  add_wrapping(stack.allocated_bytes, bytes);
  stack.live.change(bytes, blocks, peak_mark_);
  if (block.layer != 0) stack.layered.live.change(bytes, blocks, peak_mark_);
  stack.most_blocks = std::max(stack.most_blocks, stack.live.blocks);
  stack.most_bytes = std::max(stack.most_bytes, stack.live.bytes);
  if (stack.block_bytes != block.size)
    stack.block_bytes = stack.block_bytes == StackAccount::kUnseen ? block.size : StackAccount::kMixed;

  SizeClassAccount& size_class = classes_[static_cast<std::size_t>(std::bit_width(block.size))];
  size_class.allocations += blocks;
  add_wrapping(size_class.allocated_bytes, bytes);
  size_class.live.change(bytes, blocks, peak_mark_);

  layers_.allocated(block, share, peak_mark_, timeline_.mark());
  LayerAccount& layer = layers_[block.layer];
  ++layer.allocations;
  add_wrapping(layer.allocated_bytes, size);

  if (is_sample) {
    ++result_.sampled_allocations;
    add_wrapping(small_bytes_, size);
    stack.sampled = true;
  }
  change_heap(block, share.bytes, blocks);
  if (!full_) most_large_ = std::max(most_large_, large_live());
  const LiveBytes live = live_bytes();
  layer.process.note(live.a, live.b);
  if (heap_.bytes > peak_.bytes && !chosen_peak_) {
    peak_ = heap_;
    result_.peak_time = {time};
    ++peak_mark_;
    result_.mapped.bytes_at_heap_peak = mappings_.mapped_bytes();
  }
  timeline_.changed(live);
}

// Removes a block, which is no longer in the map, from all accounts.
inline void RecordingAnalyzer::remove(const LiveBlock& block, std::int64_t time, bool temporary) {
  LayerLedger::with_share(block, [&](const LiveShare& share) { remove(block, share, time, temporary); });
}

inline void RecordingAnalyzer::remove(const LiveBlock& block, const LiveShare& share, std::int64_t time,
                                      bool temporary) {
  const std::int64_t bytes = share.bytes.all, blocks = share.blocks;
  StackAccount& stack = stacks_[block.stack];
  stack.live.change(-bytes, -blocks, peak_mark_);
  if (block.layer != 0) stack.layered.live.change(-bytes, -blocks, peak_mark_);
  stack.temporary += temporary ? 1 : 0;
  temporary_ += temporary ? 1 : 0;
  classes_[static_cast<std::size_t>(std::bit_width(block.size))].live.change(-bytes, -blocks, peak_mark_);
  threads_[block.thread()].live.change(-bytes, -blocks, peak_mark_);
  layers_.released(block, share, peak_mark_, timeline_.mark());
  Lifetime& lifetime =
      lifetimes_[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(time - block.time_ns)))];
  lifetime.blocks += blocks;
  add_wrapping(lifetime.bytes, bytes);
  change_heap(block, -share.bytes, -blocks);
  timeline_.changed(live_bytes());
}

void RecordingAnalyzer::add(const ChangeBatch& batch) {
  constexpr std::size_t kAhead = 16;
  const std::span<const BlockChange> changes = batch.changes();
  const std::size_t fetched_to = outgrew_the_cache() ? changes.size() : 0;
  for (std::size_t i = 0; i < std::min(kAhead, fetched_to); ++i) prefetch_account(changes[i].block.stack);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (i + kAhead < fetched_to) prefetch_account(changes[i + kAhead].block.stack);
    if (changes[i].kind == BlockChangeKind::other) [[unlikely]]
      add_other(batch.event_of(changes[i]));
    else
      add(changes[i]);
  }
}

inline void RecordingAnalyzer::add(const BlockChange& change) {
  advance_to(change.time);
  switch (change.kind) {
    case BlockChangeKind::allocated:
    case BlockChangeKind::sampled:
      return allocate(change);
    case BlockChangeKind::released:
    case BlockChangeKind::released_unknown:
      return release(change);
    case BlockChangeKind::lost:
      ++result_.missed_releases;
      return remove(change.block, change.time, false);
    case BlockChangeKind::other:  // see add_other()
      return;
  }
}

inline void RecordingAnalyzer::allocate(const BlockChange& change) {
  ThreadAccount& thread = thread_at(change.thread);
  const bool is_sample = change.kind == BlockChangeKind::sampled;
  LayerLedger::with_share(change.block, [&](const LiveShare& share) {
    add(change.block, share, thread, is_sample, change.time);
  });
}

inline void RecordingAnalyzer::release(const BlockChange& change) {
  ThreadAccount& thread = thread_at(change.thread);
  ++result_.deallocations;
  ++thread.releases;
  ++layers_[thread.layer].releases;
  if (change.kind == BlockChangeKind::released_unknown) {
    ++result_.unknown_releases;
    return;
  }
  if (thread.is_in_tracers_own) released_by_tracer(change.block);
  remove(change.block, change.time, change.is_temporary);
}

void RecordingAnalyzer::add_other(const MemoryEvent& event) {
  advance_to(event.time.count);
  switch (event.kind) {
    case MemoryEventKind::map:
    case MemoryEventKind::unmap:
    case MemoryEventKind::reserve:
    case MemoryEventKind::make_accessible:
      return change_mappings(event, event.time.count);
    case MemoryEventKind::enter_scope:
      return enter(thread_of(event), event.scope, event.time.count);
    case MemoryEventKind::counters:
    case MemoryEventKind::release_counters:
      return count(event);
    case MemoryEventKind::gap:
      ++result_.gaps;
      add_wrapping(result_.dropped_events, static_cast<std::int64_t>(event.count));
      return;
    case MemoryEventKind::device_allocate:
    case MemoryEventKind::device_release:
    case MemoryEventKind::device_refused:
    case MemoryEventKind::device_figure:
    case MemoryEventKind::device_holder:
      return devices_.visit(event, layers_.layer_of(event.scope), event.time.count);
    default:  // an allocation in the layer of its weights
      layers_.layer_of(event.scope);
      return;
  }
}

void RecordingAnalyzer::count(const MemoryEvent& event) {
  const auto blocks = static_cast<std::int64_t>(event.count), bytes = static_cast<std::int64_t>(event.size);
  ThreadAccount& thread = thread_of(event);
  LayerAccount& layer = layers_[layers_.layer_of(event.scope)];
  if (event.kind == MemoryEventKind::release_counters) {
    for (std::int64_t* sum : {&result_.deallocations, &thread.releases, &layer.releases})
      add_wrapping(*sum, blocks);
    return;
  }
  for (std::int64_t* sum :
       {&result_.allocations, &result_.counted_allocations, &thread.allocations, &layer.allocations})
    add_wrapping(*sum, blocks);
  for (std::int64_t* sum :
       {&result_.total_allocated_bytes, &small_bytes_, &thread.allocated_bytes, &layer.allocated_bytes})
    add_wrapping(*sum, bytes);
}

void RecordingAnalyzer::change_mappings(const MemoryEvent& event, std::int64_t time) {
  const bool is_unmap = event.kind == MemoryEventKind::unmap;
  if (is_unmap) ++result_.mapped.unmaps;
  if (event.kind == MemoryEventKind::map) {
    ++result_.mapped.maps;
    add_wrapping(result_.mapped.mapped_bytes, static_cast<std::int64_t>(event.size));
  }
  mappings_.apply(event, is_unmap ? 0 : layers_.layer_of(event.scope));
  if (mappings_.peak_bytes() > result_.mapped.peak_bytes) {
    result_.mapped.peak_bytes = mappings_.peak_bytes();
    result_.mapped.peak_time = {time};
  }
}

// The thread changes its layer. The tracer's own work, such as ending a runtime's profile, is neither a cycle
// of the program nor its end: the interrupted layer continues.
void RecordingAnalyzer::enter(ThreadAccount& thread, ScopeId scope, std::int64_t time) {
  const LayerIndex from = thread.layer, to = layers_.layer_of(scope);
  layers_[from].time_ns += time - thread.in_layer_since;
  thread.in_layer_since = time;
  thread.layer = to;
  const bool is_tracers_own = layers_[to].is_tracers_own;
  // Samples cannot show a profile in small blocks; it stays part of the workspace.
  thread.is_in_tracers_own = full_ && is_tracers_own;
  if (is_tracers_own) {
    ++layers_[to].entries;
    layers_[to].process.note(live_bytes().a, live_bytes().b);
    return;
  }
  count_entries(std::exchange(thread.of_program, to), to);
}

// Leaves each layer up to the common ancestor, and then enters.
void RecordingAnalyzer::count_entries(LayerIndex from, LayerIndex to) {
  const LayerTree& tree = layers_.tree();
  LayerIndex common = from;
  for (LayerIndex other = to; common != other;) {
    LayerIndex& deeper = tree[common].depth >= tree[other].depth ? common : other;
    deeper = tree[deeper].parent;
  }
  // A layer that is only a part of other paths (a session, whose runs alone are marked) is not a cycle.
  for (LayerIndex layer = from; layer != common; layer = tree[layer].parent)
    if (layers_[layer].visited)
      cycles_.ended(tree, layer, last_time_, heap_.bytes, layers_[layer].held.a, stacks_.size(),
                    [&](std::size_t stack) { return stacks_[stack].live.bytes; });
  layers_[to].visited = true;
  for (LayerIndex layer = to; layer != common; layer = tree[layer].parent) {
    ++layers_[layer].entries;
    layers_[layer].process.note(live_bytes().a, live_bytes().b);
  }
}

// In full recordings only; see enter().
void RecordingAnalyzer::released_by_tracer(const LiveBlock& block) {
  if (block.time_ns > result_.peak_time.count) return;
  if (for_tracing_mark_ != peak_mark_) for_tracing_.clear();
  for_tracing_mark_ = peak_mark_;
  if (block.layer >= for_tracing_.size()) for_tracing_.resize(block.layer + 1);
  add_wrapping(for_tracing_[block.layer], block.bytes());
}

void RecordingAnalyzer::measure_peak(const LiveMap& blocks) {
  result_.peak_time = *chosen_peak_;
  if (timeline_.is_over(result_.peak_time))
    timeline_.begin_point(result_.peak_time, live_bytes(), mappings_.mapped_bytes(), layers_);
  const LiveBytes live = live_bytes();
  result_.mapped.bytes_at_heap_peak = mappings_.mapped_bytes();
  ++peak_mark_;
  layers_.begin_saved(peak_mark_);
  for (SizeClassAccount& size_class : classes_) size_class.live.begin_saved(peak_mark_);
  for (ThreadAccount& thread : threads_) thread.live.begin_saved(peak_mark_);
  for (StackAccount& stack : stacks_) {
    stack.live.begin_saved(peak_mark_);
    stack.layered.live.begin_saved(peak_mark_);
  }
  measure_live(blocks, SampleHalf::b, until_peak_,
               [&](const LiveBlock& block, const MeasuredBlock& of_block) {
                 add_wrapping(peak_.bytes, of_block.bytes);
                 add_wrapping(peak_.blocks, of_block.blocks);
                 peak_.bytes_variance += of_block.bytes_variance;
                 peak_.blocks_variance += of_block.blocks_variance;
                 for_each_account(block, [&](LiveAccount& account) {
                   account.live.add_saved(of_block.bytes, of_block.blocks);
                   account.peak_variance += of_block.bytes_variance;
                 });
               });
  LiveBytes measured{live.all, live.a, peak_.bytes, live.b};
  add_wrapping(measured.b_cut, live.b_cut);
  add_wrapping(measured.b_cut, -peak_.bytes);
  timeline_.choose_now(measured);
}

// All samples measure what is live at the end, limited to what was allocated.
void RecordingAnalyzer::measure_end(const LiveMap& live) {
  const BoundedSamples bounded(sampled_live(live, SampleHalf::both), in_all_);
  live.for_each([&](const LiveBlock& block) {
    if (block.weight == 1) return;
    const double variance = sample_variance(block.weight, block.bytes());
    const std::int64_t bytes = bounded.bytes(block.bytes()) - block.bytes();
    const std::int64_t blocks = bounded.blocks(block.blocks()) - block.blocks();
    add_wrapping(heap_.bytes, bytes);
    add_wrapping(heap_.blocks, blocks);
    add_wrapping(sampled_live_, bytes);
    for_each_account(block, [&](LiveAccount& account) {
      account.end_variance += variance;
      account.live.change(bytes, blocks, peak_mark_);
    });
  });
}

RecordingAnalysis RecordingAnalyzer::finish(const recording::Recording& recording, BlockTracker& tracker) {
  const recording::RecordingInfo& info = recording.info();
  result_.events = tracker.events();
  last_time_ = tracker.last_time();
  // All samples count, as at the ends of cycles.
  if (!empties_itself_at_exit(info))
    cycles_.recording_ended(!info.closed || info.events_dropped > 0, stacks_.size(),
                            [&](std::size_t stack) { return stacks_[stack].live.bytes; });
  if (!full_) measure_end(tracker.live());
  for (ThreadAccount& thread : threads_) layers_[thread.layer].time_ns += last_time_ - thread.in_layer_since;

  result_.host_recorded = info.host_recorded;
  result_.full = full_;
  result_.duration = {std::max(last_time_, info.duration.count)};
  result_.problems = recording.problems();
  if (tracker.implausible() > 0)
    result_.problems.push_back(
        fmt::format("{} allocations have impossible sizes and were skipped", tracker.implausible()));
  add_wrapping(result_.dropped_events, static_cast<std::int64_t>(info.events_dropped));
  add_unseen_blocks(info, result_);
  finish_heap(info.attached.has_value());
  if (info.segments_overwritten > 0)
    for (Figure* figure :
         {&result_.peak_bytes, &result_.peak_blocks, &result_.leaked_bytes, &result_.leaked_blocks})
      *figure = {figure->value, figure->standard_error, std::nullopt, true};
  finish_stacks(recording.stacks().size());
  finish_layers();
  finish_classes();
  finish_threads();
  find_reuse();
  result_.devices = devices_.finish();
  for (DeviceFigures& device : result_.devices)
    for (DeviceRefusal& refusal : device.refusals)
      for (DeviceProcess& process : refusal.processes)
        if (const auto named = info.processes.find(process.pid);
            named != info.processes.end() && !process.is_elsewhere)
          process.name = named->second;

  result_.timeline =
      timeline_.finish(heap_.bytes, mappings_.mapped_bytes(), layers_, options_.timeline_layers);
  if (tracker.finds_holes())
    result_.fragmentation =
        tracker.fragmentation().finish(tracker.live(), {last_time_}, result_.events > kCheaplyReadAgain);
  tracker.live() = LiveMap();  // frees the memory: a later pass may have its own map
  return std::move(result_);
}

// A process that inherited no blocks, in a recording without losses, releases only recorded allocations.
void add_unseen_blocks(const recording::RecordingInfo& info, RecordingAnalysis& analysis) {
  const bool has_losses = info.forked || info.attached || analysis.gaps > 0 || analysis.dropped_events > 0 ||
                          info.segments_overwritten > 0 || !analysis.problems.empty();
  if (has_losses)
    analysis.unseen_blocks = 0;
  else if (analysis.full)
    analysis.unseen_blocks = analysis.unknown_releases;
  else if (info.closed)
    analysis.unseen_blocks = std::max<std::int64_t>(0, analysis.deallocations - analysis.allocations);
  if (const std::int64_t unseen = analysis.unseen_blocks; unseen > 0)
    analysis.problems.push_back(fmt::format(
        "{}{} without a recorded allocation: the blocks come from an allocator's special functions (mallocx, "
        "mi_malloc, tc_malloc), a signal handler or untraced code",
        analysis.full ? "" : "At least ", unseen == 1 ? "1 free is" : fmt::format("{} frees are", unseen)));
  analysis.complete = info.closed && analysis.dropped_events == 0 && analysis.gaps == 0 &&
                      info.segments_overwritten == 0 && analysis.problems.empty();
}

LeakVerdict RecordingAnalyzer::leaks(const TracersOwnMemory& tracers_own) const {
  std::vector<bool> sampled(stacks_.size());
  for (std::size_t i = 0; i < stacks_.size(); ++i) sampled[i] = stacks_[i].sampled;
  return cycles_.verdict(layers_.tree(), sample_period_, sampled, tracers_own);
}

RecordingAnalysis analyze_recording(recording::Recording& recording, const AnalysisOptions& options) {
  const std::optional<SampledPeak> peak = find_sampled_peak(recording);
  RecordingAnalyzer analyzer(recording, options, peak);
  BlockTracker tracker(recording, true);
  pass_over_blocks(recording, tracker, analyzer,
                   {.moment = peak ? peak->moment : kNever, .cores = options.cores});
  RecordingAnalysis analysis = analyzer.finish(recording, tracker);
  if (analysis.fragmentation)
    add_fragmentation_moments(
        recording, tracker.fragmentation().passed_over(analysis.events <= kCheaplyReadAgain), analysis);
  const TracersOwnMemory tracers_own = find_profile_memory(recording, analysis);
  analysis.leaks = analyzer.leaks(tracers_own);
  find_release_times(recording, analysis.leaks);
  std::erase_if(analysis.reuse, [&](const ReuseCandidate& candidate) {
    return tracers_own.allocates(candidate.stack.index);
  });
  find_session_peaks(recording, analysis);
  return analysis;
}

}  // namespace headroom::attribution
