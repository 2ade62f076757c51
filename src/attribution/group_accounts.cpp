#include "attribution/group_accounts.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "attribution/block_changes.h"
#include "attribution/live_map.h"
#include "attribution/sampled_peak.h"

namespace headroom::attribution {
namespace {

class Accountant {
 public:
  Accountant(const recording::Recording& recording, std::vector<Grouping> groupings,
             const std::optional<SampledPeak>& peak)
      : result_{LayerTree(recording), {}, recording.info().full},
        peak_is_chosen_(peak.has_value()),
        peak_(peak.value_or(SampledPeak{{}, kNoBound, kNoBound})) {
    for (Grouping& grouping : groupings) columns_.push_back({std::move(grouping), {}});
    result_.figures.resize(columns_.size());
  }

  void add(const ChangeBatch& batch) {
    constexpr std::size_t kAhead = 16;
    const std::span<const BlockChange> changes = batch.changes();
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if (i + kAhead < changes.size()) prefetch(changes[i + kAhead].block.stack);
      if (changes[i].kind == BlockChangeKind::other) [[unlikely]]
        add_other(batch.event_of(changes[i]));
      else
        add(changes[i]);
    }
  }
  void add(const BlockChange& change) {
    switch (change.kind) {
      case BlockChangeKind::allocated:
      case BlockChangeKind::sampled:
        return allocate(change.block, change.kind == BlockChangeKind::sampled);
      case BlockChangeKind::released:
        return release(change.block, change.time, change.is_temporary && result_.has_temporary);
      case BlockChangeKind::lost:
        return release(change.block, change.time, false);
      case BlockChangeKind::released_unknown:
      case BlockChangeKind::other:  // see add_other()
        return;
    }
  }
  [[gnu::noinline]] void add_other(const MemoryEvent& event) {
    if (has_layer(event.kind)) result_.layers.of(event.scope);
  }
  bool outgrew_the_cache() const { return pair_of_stack_.size() > kCachedStacks; }

  // As in the analysis: at the moment that half A of the samples chose, what half B has.
  void measure_peak(const LiveMap& blocks) {
    ++peak_mark_;
    for (Column& column : columns_)
      for (LiveCounter& live : column.live) live.begin_saved(peak_mark_);
    measure_live(blocks, SampleHalf::b, peak_.until_peak,
                 [&](const LiveBlock& block, const MeasuredBlock& measured) {
                   for_each_group(block, [&](LiveCounter& live, GroupFigures& figures) {
                     live.add_saved(measured.bytes, measured.blocks);
                     figures.live.peak_variance += measured.bytes_variance;
                   });
                 });
  }

  GroupAccounts finish(const LiveMap& blocks) {
    if (peak_is_chosen_) measure_end(blocks);
    for (std::size_t column = 0; column < columns_.size(); ++column)
      for (std::size_t group = 0; group < columns_[column].live.size(); ++group) {
        const LiveCounter& live = columns_[column].live[group];
        GroupFigures& figures = result_.figures[column][group];
        const auto most = static_cast<double>(peak_.in_all.bytes);  // as in the analysis
        const double peak_variance = std::min(figures.live.peak_variance, most * most),
                     end_variance = std::min(figures.live.end_variance, most * most);
        figures.live = {live.bytes_at(peak_mark_),
                        live.blocks_at(peak_mark_),
                        live.bytes,
                        live.blocks,
                        peak_variance,
                        end_variance};
        // Half B measures the peak, and may have more than all samples ever had.
        figures.most_bytes = std::max(figures.most_bytes, figures.live.peak_bytes);
      }
    return std::move(result_);
  }

 private:
  struct Column {
    Grouping grouping;
    std::vector<LiveCounter> live;  // [group]
  };

  void allocate(const LiveBlock& block, bool is_sample) {
    const std::int64_t bytes = block.bytes(), blocks = block.blocks();
    for_each_group(block, [&](LiveCounter& live, GroupFigures& figures) {
      live.change(bytes, blocks, peak_mark_);
      figures.most_bytes = std::max(figures.most_bytes, live.bytes);
      add_wrapping(figures.allocations, blocks);
      add_wrapping(figures.allocated_bytes, bytes);
      figures.sampled = figures.sampled || is_sample;
    });
    add_wrapping(live_bytes_, bytes);
    if (live_bytes_ > peak_bytes_ && !peak_is_chosen_) {
      peak_bytes_ = live_bytes_;
      ++peak_mark_;
    }
  }

  void release(const LiveBlock& block, std::int64_t time, bool is_temporary) {
    const std::int64_t bytes = block.bytes(), blocks = block.blocks();
    for_each_group(block, [&](LiveCounter& live, GroupFigures& figures) {
      live.change(-bytes, -blocks, peak_mark_);
      count_lifetime(figures, block, time);
      if (!is_temporary) return;
      ++figures.temporary_blocks;
      add_wrapping(figures.temporary_bytes, bytes);
    });
    add_wrapping(live_bytes_, -bytes);
  }

  // All samples measure the end, limited to what is possible.
  void measure_end(const LiveMap& blocks_at_end) {
    const BoundedSamples bounded(sampled_live(blocks_at_end, SampleHalf::both), peak_.in_all);
    blocks_at_end.for_each([&](const LiveBlock& block) {
      if (block.weight == 1) return;
      const std::int64_t bytes = block.bytes(), blocks = block.blocks();
      for_each_group(block, [&](LiveCounter& live, GroupFigures& figures) {
        figures.live.end_variance += sample_variance(block.weight, bytes);
        live.change(bounded.bytes(bytes) - bytes, bounded.blocks(blocks) - blocks, peak_mark_);
      });
    });
  }

  static void count_lifetime(GroupFigures& figures, const LiveBlock& block, std::int64_t end) {
    add_wrapping(figures.released_blocks, block.blocks());
    const double lived = static_cast<double>(end) - static_cast<double>(block.time_ns);
    figures.lived_ns += std::max(0.0, lived) * static_cast<double>(block.blocks());
  }

  static constexpr std::size_t kCachedStacks = 1024;
  [[gnu::always_inline]] void prefetch(std::uint32_t stack) const {
    if (stack >= pair_of_stack_.size() || pair_of_stack_[stack] == 0) return;
    const std::uint32_t* groups = &groups_[(pair_of_stack_[stack] - 1) * columns_.size()];
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      __builtin_prefetch(&columns_[column].live[groups[column]], 1);
      const auto* figures = reinterpret_cast<const char*>(&result_.figures[column][groups[column]]);
      __builtin_prefetch(figures, 1);
      __builtin_prefetch(figures + 64, 1);
    }
  }

  template <class Change>
  void for_each_group(const LiveBlock& block, Change&& change) {
    const std::uint32_t* groups = &groups_[pair_of(block.layer, block.stack) * columns_.size()];
    for (std::size_t column = 0; column < columns_.size(); ++column)
      change(columns_[column].live[groups[column]], result_.figures[column][groups[column]]);
  }

  // The pairs of a stack are a list, which begins with the latest. Nearly all stacks allocate in one layer.
  std::uint32_t pair_of(LayerIndex layer, std::uint32_t stack) {
    if (stack >= pair_of_stack_.size()) pair_of_stack_.resize(std::max<std::size_t>(stack + 1, 2 * stack));
    for (std::uint32_t pair = pair_of_stack_[stack]; pair != 0; pair = pairs_[pair].next)
      if (pairs_[pair].layer == layer) return pair - 1;
    return new_pair(layer, stack);
  }

  std::uint32_t new_pair(LayerIndex layer, std::uint32_t stack) {
    pairs_.push_back(
        {layer, std::exchange(pair_of_stack_[stack], static_cast<std::uint32_t>(pairs_.size()))});
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const std::uint32_t group = columns_[column].grouping(layer, StackId{stack});
      groups_.push_back(group);
      if (group < columns_[column].live.size()) continue;
      columns_[column].live.resize(group + 1);
      result_.figures[column].resize(group + 1);
    }
    return pair_of_stack_[stack] - 1;
  }

  GroupAccounts result_;
  std::vector<Column> columns_;
  struct Pair {
    LayerIndex layer = 0;
    std::uint32_t next = 0;  // of the same stack; 0: none
  };
  std::vector<Pair> pairs_ = std::vector<Pair>(1);  // from 1
  std::vector<std::uint32_t> pair_of_stack_;        // the latest; 0: none
  std::vector<std::uint32_t> groups_;               // of each pair, one a column
  std::int64_t live_bytes_ = 0, peak_bytes_ = 0;
  Mark peak_mark_ = 1;
  bool peak_is_chosen_;
  SampledPeak peak_;
};

}  // namespace

std::optional<Nanoseconds> GroupFigures::average_lifetime() const {
  if (released_blocks <= 0) return std::nullopt;
  return Nanoseconds{std::llround(std::min(lived_ns / static_cast<double>(released_blocks), 9e18))};
}

GroupAccounts account_groups(recording::Recording& recording, std::vector<Grouping> groupings) {
  const std::optional<SampledPeak> peak = find_sampled_peak(recording);
  Accountant accountant(recording, std::move(groupings), peak);
  BlockTracker tracker(recording, false);
  pass_over_blocks(recording, tracker, accountant, {.moment = peak ? peak->moment : kNever});
  return accountant.finish(tracker.live());
}

}  // namespace headroom::attribution
