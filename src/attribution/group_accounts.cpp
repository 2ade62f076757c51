#include "attribution/group_accounts.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

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
        peak_(peak.value_or(SampledPeak{{}, kNoBound, kNoBound})),
        awaits_peak_(peak_is_chosen_) {
    for (Grouping& grouping : groupings) columns_.push_back({std::move(grouping), {}});
    result_.figures.resize(columns_.size());
  }

  void visit(const MemoryEvent& event) {
    if (awaits_peak_ && event.time > peak_.moment) measure_peak();
    if (event.kind == MemoryEventKind::release)
      release(event);
    else if (event.kind == MemoryEventKind::gap)
      last_allocated_[event.thread.index] = 0;
    else if (is_allocation(event))
      allocate(event);
  }

  GroupAccounts finish() {
    if (awaits_peak_) measure_peak();
    if (peak_is_chosen_) measure_end();
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

  void allocate(const MemoryEvent& event) {
    LiveBlock block;
    if (!make_block(event, result_.layers.of(event.scope), event.time.count, block)) return;
    block.stack = pair_of(block.layer, event.stack);  // stored in the block
    last_allocated_[event.thread.index] = block.address;
    LiveBlock replaced;
    if (live_.insert(block, replaced)) {
      for_each_group(replaced, [&](LiveCounter& live, GroupFigures& figures) {
        live.change(-replaced.bytes(), -replaced.blocks(), peak_mark_);
        count_lifetime(figures, replaced, block.time_ns);
      });
      add_wrapping(live_bytes_, -replaced.bytes());
    }
    const std::int64_t bytes = block.bytes(), blocks = block.blocks();
    const bool sampled = event.kind == MemoryEventKind::sampled_allocate;
    for_each_group(block, [&](LiveCounter& live, GroupFigures& figures) {
      live.change(bytes, blocks, peak_mark_);
      figures.most_bytes = std::max(figures.most_bytes, live.bytes);
      add_wrapping(figures.allocations, blocks);
      add_wrapping(figures.allocated_bytes, bytes);
      figures.sampled = figures.sampled || sampled;
    });
    add_wrapping(live_bytes_, bytes);
    if (live_bytes_ > peak_bytes_ && !peak_is_chosen_) {
      peak_bytes_ = live_bytes_;
      ++peak_mark_;
    }
  }

  void release(const MemoryEvent& event) {
    std::uint64_t& last = last_allocated_[event.thread.index];
    LiveBlock block;
    if (live_.take(event.address, block)) {
      const bool temporary = last == event.address && result_.has_temporary;
      const std::int64_t bytes = block.bytes(), blocks = block.blocks();
      for_each_group(block, [&](LiveCounter& live, GroupFigures& figures) {
        live.change(-bytes, -blocks, peak_mark_);
        count_lifetime(figures, block, event.time.count);
        if (!temporary) return;
        ++figures.temporary_blocks;
        add_wrapping(figures.temporary_bytes, bytes);
      });
      add_wrapping(live_bytes_, -bytes);
    }
    last = 0;
  }

  // As in the analysis: at the moment that half A of the samples chose, what half B has.
  void measure_peak() {
    awaits_peak_ = false;
    ++peak_mark_;
    for (Column& column : columns_)
      for (LiveCounter& live : column.live) live.begin_saved(peak_mark_);
    measure_live(live_, SampleHalf::b, peak_.until_peak,
                 [&](const LiveBlock& block, const MeasuredBlock& measured) {
                   for_each_group(block, [&](LiveCounter& live, GroupFigures& figures) {
                     live.add_saved(measured.bytes, measured.blocks);
                     figures.live.peak_variance += measured.bytes_variance;
                   });
                 });
  }

  // All samples measure the end, limited to what is possible.
  void measure_end() {
    const BoundedSamples bounded(sampled_live(live_, SampleHalf::both), peak_.in_all);
    live_.for_each([&](const LiveBlock& block) {
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

  template <class Change>
  void for_each_group(const LiveBlock& block, Change&& change) {
    const std::uint32_t* groups = &groups_[block.stack * columns_.size()];
    for (std::size_t column = 0; column < columns_.size(); ++column)
      change(columns_[column].live[groups[column]], result_.figures[column][groups[column]]);
  }

  std::uint32_t pair_of(LayerIndex layer, StackId stack) {
    const std::uint64_t key = std::uint64_t{layer} << 32 | stack.index;
    const auto [found, is_new] = pairs_.emplace(key, static_cast<std::uint32_t>(pairs_.size()));
    if (is_new) {
      for (std::size_t column = 0; column < columns_.size(); ++column) {
        const std::uint32_t group = columns_[column].grouping(layer, stack);
        groups_.push_back(group);
        if (group < columns_[column].live.size()) continue;
        columns_[column].live.resize(group + 1);
        result_.figures[column].resize(group + 1);
      }
    }
    return found->second;
  }

  GroupAccounts result_;
  std::vector<Column> columns_;
  std::unordered_map<std::uint64_t, std::uint32_t> pairs_;  // of layer and stack
  std::vector<std::uint32_t> groups_;                       // of each pair, one a column
  LiveMap live_;
  std::unordered_map<std::uint32_t, std::uint64_t> last_allocated_;  // by thread; 0 unless its last event
  std::int64_t live_bytes_ = 0, peak_bytes_ = 0;
  Mark peak_mark_ = 1;
  bool peak_is_chosen_;
  SampledPeak peak_;
  bool awaits_peak_;
};

}  // namespace

std::optional<Nanoseconds> GroupFigures::average_lifetime() const {
  if (released_blocks <= 0) return std::nullopt;
  return Nanoseconds{std::llround(std::min(lived_ns / static_cast<double>(released_blocks), 9e18))};
}

GroupAccounts account_groups(recording::Recording& recording, std::vector<Grouping> groupings) {
  Accountant accountant(recording, std::move(groupings), find_sampled_peak(recording));
  recording.for_each_event([&](const MemoryEvent& event) { accountant.visit(event); });
  return accountant.finish();
}

}  // namespace headroom::attribution
