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
      knows_holes_(full_ && !recording::has_unknown_blocks(recording.info())),
      sample_period_(recording.info().full ? 0 : recording.info().sample_period_bytes),
      until_peak_(peak ? peak->until_peak : kNoBound),
      in_all_(peak ? peak->in_all : kNoBound),
      peak_is_chosen_(peak.has_value()),
      moment_of_peak_(peak ? peak->moment.count : std::numeric_limits<std::int64_t>::max()),
      layers_(recording),
      stacks_(256),
      timeline_(options.timeline_points, recording.info().duration),
      fragmentation_(heap_layout_of(recording.info())),
      mappings_(recording.info().page_bytes),
      devices_(recording.info(), options.timeline_points) {}

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
  thread.scope = scope;
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

// Half A chose this moment; half B measures what was live then.
void RecordingAnalyzer::measure_peak() {
  result_.peak_time = {std::exchange(moment_of_peak_, std::numeric_limits<std::int64_t>::max())};
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
  measure_live(live_, SampleHalf::b, until_peak_, [&](const LiveBlock& block, const MeasuredBlock& of_block) {
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
void RecordingAnalyzer::measure_end() {
  const BoundedSamples bounded(sampled_live(live_, SampleHalf::both), in_all_);
  live_.for_each([&](const LiveBlock& block) {
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

RecordingAnalysis RecordingAnalyzer::finish(const recording::Recording& recording) {
  const recording::RecordingInfo& info = recording.info();
  if (peak_is_chosen_ && moment_of_peak_ <= last_time_) measure_peak();
  // All samples count, as at the ends of cycles.
  if (!empties_itself_at_exit(info))
    cycles_.recording_ended(!info.closed || info.events_dropped > 0, stacks_.size(),
                            [&](std::size_t stack) { return stacks_[stack].live.bytes; });
  if (!full_) measure_end();
  for (ThreadAccount& thread : threads_) layers_[thread.layer].time_ns += last_time_ - thread.in_layer_since;

  result_.host_recorded = info.host_recorded;
  result_.full = full_;
  result_.duration = {std::max(last_time_, info.duration.count)};
  result_.problems = recording.problems();
  if (implausible_ > 0)
    result_.problems.push_back(
        fmt::format("{} allocations have impossible sizes and were skipped", implausible_));
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
  if (knows_holes_)
    result_.fragmentation = fragmentation_.finish(live_, {last_time_}, result_.events > kCheaplyReadAgain);
  live_ = LiveMap();  // frees the memory: a later pass may have its own map
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
  RecordingAnalyzer analyzer(recording, options, find_sampled_peak(recording));
  // Events wait until the memory that they will touch is prefetched. Prefetching for many at once makes the
  // processor look up several pages at the same time.
  constexpr std::size_t kTogether = 64;
  std::array<MemoryEvent, kTogether> waiting;
  std::size_t count = 0;
  const auto visit_waiting = [&] {
    for (std::size_t i = 0; i < count; ++i) analyzer.prefetch(waiting[i]);
    for (std::size_t i = 0; i < count; ++i) analyzer.prefetch_blocks(waiting[i]);
    for (std::size_t i = 0; i < count; ++i) analyzer.prefetch_account_of(waiting[i]);
    for (std::size_t i = 0; i < count; ++i) analyzer.visit(waiting[i]);
    count = 0;
  };
  recording.for_each_event([&](const MemoryEvent& event) {
    if (!analyzer.needs_prefetch()) return analyzer.visit(event);
    waiting[count++] = event;
    if (count == kTogether) visit_waiting();
  });
  visit_waiting();
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

}  // namespace headroom::attribution
