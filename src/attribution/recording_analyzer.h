// The main pass of analyze_recording(): accounts for every view, and how each event changes them. The
// functions of the hot path are in this header, so that the compiler inlines them into the loop over the
// events.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <vector>

#include "attribution/cycle_leaks.h"
#include "attribution/device_memory.h"
#include "attribution/heap_fragmentation.h"
#include "attribution/live_map.h"
#include "attribution/mapping_ledger.h"
#include "attribution/memory_timeline.h"
#include "attribution/recording_analysis.h"
#include "attribution/sampled_peak.h"

namespace headroom::attribution {

// The live memory of the heap; a part may be estimated from samples.
struct HeapTotal {
  std::int64_t bytes = 0, blocks = 0;
  double bytes_variance = 0, blocks_variance = 0;

  // `weight`: of a sample; 1 for a block that was recorded individually.
  void change(double weight, std::int64_t by_bytes, std::int64_t by_blocks) {
    add_wrapping(bytes, by_bytes);
    add_wrapping(blocks, by_blocks);
    if (weight == 1) return;
    const double sign = by_blocks < 0 ? -1 : 1;
    bytes_variance += sign * sample_variance(weight, by_bytes);
    blocks_variance += sign * sample_variance(weight, by_blocks);
  }
};

// An event without a layer touches the first one or two cache lines.
struct alignas(64) StackAccount : LiveAccount {
  std::int64_t temporary = 0;
  std::int64_t allocations = 0, allocated_bytes = 0, most_blocks = 0, most_bytes = 0;
  std::uint64_t block_bytes = kUnseen;  // or kMixed
  bool sampled = false;
  LiveAccount layered;  // the part that belongs to a layer
  static constexpr std::uint64_t kUnseen = ~std::uint64_t{0}, kMixed = kUnseen - 1;
};

struct SizeClassAccount : LiveAccount {
  std::int64_t allocations = 0, allocated_bytes = 0;
};

struct ThreadAccount : LiveAccount {
  std::int64_t allocations = 0, releases = 0, allocated_bytes = 0;
  std::uint64_t last_allocated = 0;  // the address, if the thread's last event was an allocation
  LayerIndex layer = 0;
  LayerIndex of_program = 0;  // the same, but during the tracer's own work the layer that it interrupted
  ScopeId scope;
  std::int64_t in_layer_since = 0;
  bool is_in_tracers_own = false;  // its actions there are not the program's
};

class RecordingAnalyzer {
 public:
  // `peak`: absent if the peak is exact; the pass then finds it.
  RecordingAnalyzer(const recording::Recording& recording, const AnalysisOptions& options,
                    const std::optional<SampledPeak>& peak);

  // Once visit() of many events needs prefetching, it stays so. First prefetch() for all of them, then
  // prefetch_blocks().
  bool needs_prefetch() const { return live_.outgrew_the_cache(); }
  [[gnu::always_inline]] void prefetch(const MemoryEvent& event) const {
    live_.prefetch(event.address);
    if (knows_holes_) fragmentation_.prefetch(event.address);
  }
  [[gnu::always_inline]] void prefetch_blocks(const MemoryEvent& event) const {
    live_.prefetch_block(event.address);
    prefetch_account(event.stack.index);
  }
  // After prefetch_blocks(): the account of a block that a release will find.
  [[gnu::always_inline]] void prefetch_account_of(const MemoryEvent& event) const {
    if (event.kind != MemoryEventKind::release) return;
    if (const LiveBlock* block = live_.guess(event.address)) prefetch_account(block->stack);
  }
  // Inlines everything that an event touches; otherwise a tenth of the time goes into calls.
  [[gnu::flatten]] void visit(const MemoryEvent& event);
  // All figures except leaks.
  RecordingAnalysis finish(const recording::Recording& recording);
  // After finish(), in a full recording: the moments that FragmentationSampler::passed_over() misses.
  std::vector<Nanoseconds> fragmentation_passed_over(bool exactly) const {
    return fragmentation_.passed_over(exactly);
  }
  // `tracers_own` is found with the figures of finish().
  LeakVerdict leaks(const TracersOwnMemory& tracers_own) const;

 private:
  [[gnu::always_inline]] void prefetch_account(std::uint32_t stack) const {
    if (stack == 0 || stack >= stacks_.size()) return;
    __builtin_prefetch(&stacks_[stack], 1);
    __builtin_prefetch(reinterpret_cast<const char*>(&stacks_[stack]) + 64, 1);
  }
  void allocate(const MemoryEvent& event, std::int64_t time);
  void release(const MemoryEvent& event, std::int64_t time);
  void add(const LiveBlock& block, const LiveShare& share, ThreadAccount& thread, bool is_sample,
           std::int64_t time);
  void remove(const LiveBlock& block, std::int64_t time, bool temporary);
  void remove(const LiveBlock& block, const LiveShare& share, std::int64_t time, bool temporary);
  void count(const MemoryEvent& event);
  void change_mappings(const MemoryEvent& event, std::int64_t time);
  void enter(ThreadAccount& thread, ScopeId scope, std::int64_t time);
  void count_entries(LayerIndex from, LayerIndex to);
  void released_by_tracer(const LiveBlock& block);
  void measure_peak();
  void measure_end();
  // Calls use(account) with all accounts of a block's bytes.
  template <class Use>
  void for_each_account(const LiveBlock& block, Use&& use) {
    use(stacks_[block.stack]);
    if (block.layer != 0) use(stacks_[block.stack].layered);
    use(layers_[block.layer].self);
    use(classes_[static_cast<std::size_t>(std::bit_width(block.size))]);
    use(threads_[block.thread]);
  }
  void change_heap(const LiveBlock& block, const LiveBytes& bytes, std::int64_t blocks) {
    heap_.change(block.weight, bytes.all, blocks);
    if (block.weight == 1) return;
    add_wrapping(sampled_live_, bytes.all);
    add_wrapping(a_over_all_, bytes.a - bytes.all);
    add_wrapping(b_over_all_, bytes.b - bytes.all);
  }
  // Half A is not limited, because it only chooses moments; the others are limited to what is possible.
  LiveBytes live_bytes() const {
    LiveBytes live{heap_.bytes, heap_.bytes, heap_.bytes, 0};
    add_wrapping(live.a, a_over_all_);
    add_wrapping(live.b, b_over_all_);
    std::int64_t of_b = sampled_live_;
    add_wrapping(of_b, b_over_all_);
    if (sampled_live_ > in_all_.bytes) add_wrapping(live.all, in_all_.bytes - sampled_live_);
    if (of_b > in_all_.bytes) {
      live.b_cut = of_b - in_all_.bytes;
      add_wrapping(live.b, -live.b_cut);
    }
    return live;
  }

  std::int64_t large_live() const {
    std::int64_t large = heap_.bytes;
    add_wrapping(large, -sampled_live_);
    return large;
  }

  ThreadAccount& thread_of(const MemoryEvent& event) {
    const std::uint32_t index = std::min(event.thread.index, kMostThreads);
    if (index >= threads_.size()) threads_.resize(index + 1);
    return threads_[index];
  }
  StackAccount& stack_of(std::uint32_t index) {
    if (index >= stacks_.size()) stacks_.resize(std::max<std::size_t>(index + 1, stacks_.size() * 2));
    return stacks_[index];
  }

  // Parts of finish().
  void finish_heap(bool has_older_blocks);
  void finish_stacks(std::uint32_t count);
  void finish_layers();
  void finish_classes();
  void finish_threads();
  void find_reuse();
  // No figure can be wrong by more than everything that was sampled.
  LiveFigures live_figures(const LiveAccount& account) const;
  double bounded(double variance) const;
  // An upper limit of the bytes live at once: the maximum of the large blocks plus all small ones.
  std::int64_t most_possible() const;

  RecordingAnalysis result_;  // counts in the pass; finish() sets the rest
  AnalysisOptions options_;
  bool full_;
  bool knows_holes_;  // all live blocks are known
  std::uint64_t sample_period_;
  LiveMap live_;
  HeapTotal heap_, peak_;
  // Difference of each half to all samples; only samples change it.
  std::int64_t a_over_all_ = 0, b_over_all_ = 0;
  std::int64_t sampled_live_ = 0;  // the part of heap_ that samples represent
  std::int64_t most_large_ = 0;    // the maximum of the rest
  SmallAllocations until_peak_ = kNoBound, in_all_ = kNoBound;
  // Half A has chosen the peak; half B measures it when this moment is over.
  bool peak_is_chosen_;
  std::int64_t moment_of_peak_;
  std::int64_t last_time_ = 0;
  Mark peak_mark_ = 1;

  LayerLedger layers_;
  // Memory that the tracer made a runtime release existed only because of tracing. By layer: the part that
  // was live at the peak.
  std::vector<std::int64_t> for_tracing_;
  Mark for_tracing_mark_ = 0;
  std::vector<StackAccount> stacks_;
  std::vector<ThreadAccount> threads_;
  std::array<SizeClassAccount, 65> classes_{};
  struct Lifetime {
    std::int64_t blocks = 0, bytes = 0;
  };
  std::array<Lifetime, 65> lifetimes_{};
  TimelineBuilder timeline_;
  FragmentationSampler fragmentation_;
  CycleWatch cycles_;
  MappingLedger mappings_;
  DeviceLedgers devices_;

  std::int64_t temporary_ = 0, small_bytes_ = 0, implausible_ = 0;
};

inline void RecordingAnalyzer::visit(const MemoryEvent& event) {
  const std::int64_t time = std::clamp<std::int64_t>(event.time.count, last_time_, kLatestTime);
  if (time > moment_of_peak_) measure_peak();
  last_time_ = time;
  if (timeline_.is_over({time}))
    timeline_.begin_point({time}, live_bytes(), mappings_.mapped_bytes(), layers_);
  ++result_.events;
  switch (event.kind) {
    case MemoryEventKind::allocate:
    case MemoryEventKind::sampled_allocate:
      return allocate(event, time);
    case MemoryEventKind::release:
      return release(event, time);
    case MemoryEventKind::map:
    case MemoryEventKind::unmap:
    case MemoryEventKind::reserve:
    case MemoryEventKind::make_accessible:
      return change_mappings(event, time);
    case MemoryEventKind::enter_scope:
      return enter(thread_of(event), event.scope, time);
    case MemoryEventKind::counters:
      return count(event);
    case MemoryEventKind::release_counters:  // the second half of a record
      --result_.events;
      return count(event);
    case MemoryEventKind::gap:
      ++result_.gaps;
      add_wrapping(result_.dropped_events, static_cast<std::int64_t>(event.count));
      thread_of(event).last_allocated = 0;
      return;
    case MemoryEventKind::device_allocate:
    case MemoryEventKind::device_release:
    case MemoryEventKind::device_refused:
    case MemoryEventKind::device_figure:
      return devices_.visit(event, layers_.layer_of(event.scope), time);
    case MemoryEventKind::device_holder:  // a part of the previous refusal
      --result_.events;
      return devices_.visit(event, layers_.layer_of(event.scope), time);
    case MemoryEventKind::weight:  // handled by the reader
      --result_.events;
      return;
  }
}

inline void RecordingAnalyzer::allocate(const MemoryEvent& event, std::int64_t time) {
  ThreadAccount& thread = thread_of(event);
  if (event.scope != thread.scope && !event.is_weight)
    enter(thread, event.scope, time);  // the scope of a segment's header
  LiveBlock block;
  if (!make_block(event, event.is_weight ? layers_.layer_of(event.scope) : thread.layer, time, block)) {
    ++implausible_;
    return;
  }
  LiveBlock replaced;
  if (live_.insert(block, replaced)) {
    ++result_.missed_releases;
    remove(replaced, time, false);
    if (knows_holes_) fragmentation_.replaced(replaced);
  }
  const bool is_sample = event.kind == MemoryEventKind::sampled_allocate;
  LayerLedger::with_share(block, [&](const LiveShare& share) { add(block, share, thread, is_sample, time); });
  if (knows_holes_) fragmentation_.allocated(block, live_, {time});
}

inline void RecordingAnalyzer::add(const LiveBlock& block, const LiveShare& share, ThreadAccount& thread,
                                   bool is_sample, std::int64_t time) {
  const std::int64_t bytes = share.bytes.all, blocks = share.blocks;
  const auto size = static_cast<std::int64_t>(block.size);
  ++result_.allocations;
  add_wrapping(result_.total_allocated_bytes, size);
  ++thread.allocations;
  add_wrapping(thread.allocated_bytes, size);
  thread.last_allocated = block.address;
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
  if (heap_.bytes > peak_.bytes && !peak_is_chosen_) {
    peak_ = heap_;
    result_.peak_time = {time};
    ++peak_mark_;
    result_.mapped.bytes_at_heap_peak = mappings_.mapped_bytes();
  }
  timeline_.changed(live);
}

inline void RecordingAnalyzer::release(const MemoryEvent& event, std::int64_t time) {
  ThreadAccount& thread = thread_of(event);
  if (event.scope != thread.scope) enter(thread, event.scope, time);
  LiveBlock block;
  const bool known = live_.take(event.address, block);
  ++result_.deallocations;
  ++thread.releases;
  ++layers_[thread.layer].releases;
  const bool temporary = known && thread.last_allocated == event.address;
  thread.last_allocated = 0;
  if (!known) {
    ++result_.unknown_releases;
    return;
  }
  if (thread.is_in_tracers_own) released_by_tracer(block);
  remove(block, time, temporary);
  if (knows_holes_) fragmentation_.released(block, live_, {time});
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
  threads_[block.thread].live.change(-bytes, -blocks, peak_mark_);
  layers_.released(block, share, peak_mark_, timeline_.mark());
  Lifetime& lifetime =
      lifetimes_[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(time - block.time_ns)))];
  lifetime.blocks += blocks;
  add_wrapping(lifetime.bytes, bytes);
  change_heap(block, -share.bytes, -blocks);
  timeline_.changed(live_bytes());
}

}  // namespace headroom::attribution
