// The second half of the main pass of analyze_recording(): accounts for every view, and how each change of
// the live blocks changes them (block_changes.h).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <vector>

#include "attribution/block_changes.h"
#include "attribution/cycle_leaks.h"
#include "attribution/device_memory.h"
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
  LayerIndex layer = 0;
  LayerIndex of_program = 0;  // the same, but during the tracer's own work the layer that it interrupted
  std::int64_t in_layer_since = 0;
  bool is_in_tracers_own = false;  // its actions there are not the program's
};

class RecordingAnalyzer {
 public:
  // `peak`: absent if the peak is exact; the pass then finds it.
  RecordingAnalyzer(const recording::Recording& recording, const AnalysisOptions& options,
                    const std::optional<SampledPeak>& peak);

  // All changes of the recording, in order.
  void add(const ChangeBatch& batch);
  // Inlines everything that a change touches; otherwise a tenth of the time goes into calls.
  [[gnu::flatten]] void add(const BlockChange& change);
  [[gnu::noinline]] void add_other(const MemoryEvent& event);
  bool outgrew_the_cache() const { return stacks_.size() > kCachedStacks; }
  // Half A chose the moment up to which all changes were added; half B measures what was live then.
  void measure_peak(const LiveMap& live);
  // All figures except leaks.
  RecordingAnalysis finish(const recording::Recording& recording, BlockTracker& tracker);
  // `tracers_own` is found with the figures of finish().
  LeakVerdict leaks(const TracersOwnMemory& tracers_own) const;

 private:
  static constexpr std::size_t kCachedStacks = 1024;  // their accounts fit into the first caches
  [[gnu::always_inline]] void prefetch_account(std::uint32_t stack) const {
    if (stack >= stacks_.size()) return;
    __builtin_prefetch(&stacks_[stack], 1);
    __builtin_prefetch(reinterpret_cast<const char*>(&stacks_[stack]) + 64, 1);
  }
  void advance_to(std::int64_t time) {
    last_time_ = time;
    if (timeline_.is_over({time})) [[unlikely]]
      timeline_.begin_point({time}, live_bytes(), mappings_.mapped_bytes(), layers_);
  }
  void allocate(const BlockChange& change);
  void release(const BlockChange& change);
  void add(const LiveBlock& block, const LiveShare& share, ThreadAccount& thread, bool is_sample,
           std::int64_t time);
  void remove(const LiveBlock& block, std::int64_t time, bool temporary);
  void remove(const LiveBlock& block, const LiveShare& share, std::int64_t time, bool temporary);
  void count(const MemoryEvent& event);
  void change_mappings(const MemoryEvent& event, std::int64_t time);
  void enter(ThreadAccount& thread, ScopeId scope, std::int64_t time);
  void count_entries(LayerIndex from, LayerIndex to);
  void released_by_tracer(const LiveBlock& block);
  void measure_end(const LiveMap& live);
  // Calls use(account) with all accounts of a block's bytes.
  template <class Use>
  void for_each_account(const LiveBlock& block, Use&& use) {
    use(stacks_[block.stack]);
    if (block.layer != 0) use(stacks_[block.stack].layered);
    use(layers_[block.layer].self);
    use(classes_[static_cast<std::size_t>(std::bit_width(block.size))]);
    use(threads_[block.thread()]);
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

  ThreadAccount& thread_at(std::uint32_t index) {
    if (index >= threads_.size()) threads_.resize(index + 1);
    return threads_[index];
  }
  ThreadAccount& thread_of(const MemoryEvent& event) {
    return thread_at(std::min(event.thread.index, kMostThreads));
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
  std::uint64_t sample_period_;
  HeapTotal heap_, peak_;
  // Difference of each half to all samples; only samples change it.
  std::int64_t a_over_all_ = 0, b_over_all_ = 0;
  std::int64_t sampled_live_ = 0;  // the part of heap_ that samples represent
  std::int64_t most_large_ = 0;    // the maximum of the rest
  SmallAllocations until_peak_ = kNoBound, in_all_ = kNoBound;
  std::optional<Nanoseconds> chosen_peak_;  // by half A of the samples
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
  CycleWatch cycles_;
  MappingLedger mappings_;
  DeviceLedgers devices_;

  std::int64_t temporary_ = 0, small_bytes_ = 0;
};

}  // namespace headroom::attribution
