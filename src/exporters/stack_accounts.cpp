#include "exporters/stack_accounts.h"

#include <unordered_map>

#include "analysis/live_counter.h"
#include "analysis/live_map.h"

namespace headroom::exporters {
namespace {

using analysis::add_wrapping;
using analysis::LiveBlock;

class Accountant {
 public:
  explicit Accountant(const recording::Recording& recording)
      : result_{analysis::LayerTree(recording), {}, recording.info().full} {}

  void visit(const MemoryEvent& event) {
    if (event.kind == MemoryEventKind::release)
      release(event);
    else if (event.kind == MemoryEventKind::gap)
      last_allocated_[event.thread.index] = 0;
    else if (analysis::is_allocation(event))
      allocate(event);
  }

  StackAccounts finish() {
    for (std::size_t i = 0; i < live_counters_.size(); ++i) {
      const analysis::LiveCounter& live = live_counters_[i];
      result_.accounts[i][Metric::peak] = {live.blocks_at(peak_mark_), live.bytes_at(peak_mark_)};
      result_.accounts[i][Metric::leaked] = {live.blocks, live.bytes};
    }
    return std::move(result_);
  }

 private:
  void allocate(const MemoryEvent& event) {
    LiveBlock block;
    if (!analysis::make_block(event, result_.layers.of(event.scope), event.time.count, block)) return;
    block.stack = account_of(block.layer, event.stack);  // the block remembers its account
    last_allocated_[event.thread.index] = block.address;
    LiveBlock replaced;
    if (live_.insert(block, replaced)) change(replaced, -1);
    Amount& allocated = result_.accounts[block.stack][Metric::allocated];
    add_wrapping(allocated.blocks, block.blocks());
    add_wrapping(allocated.bytes, block.bytes());
    change(block, 1);
    if (live_bytes_ > peak_bytes_) {
      peak_bytes_ = live_bytes_;
      ++peak_mark_;
    }
  }

  void release(const MemoryEvent& event) {
    std::uint64_t& last = last_allocated_[event.thread.index];
    LiveBlock block;
    if (live_.take(event.address, block)) {
      change(block, -1);
      if (last == event.address && result_.has_temporary) {
        Amount& temporary = result_.accounts[block.stack][Metric::temporary];
        ++temporary.blocks;
        add_wrapping(temporary.bytes, block.bytes());
      }
    }
    last = 0;
  }

  void change(const LiveBlock& block, std::int64_t sign) {
    live_counters_[block.stack].change(sign * block.bytes(), sign * block.blocks(), peak_mark_);
    add_wrapping(live_bytes_, sign * block.bytes());
  }

  std::uint32_t account_of(analysis::LayerIndex layer, StackId stack) {
    const std::uint64_t key = std::uint64_t{layer} << 32 | stack.index;
    const auto [found, is_new] = index_.emplace(key, static_cast<std::uint32_t>(live_counters_.size()));
    if (is_new) {
      result_.accounts.push_back({.layer = layer, .stack = stack});
      live_counters_.emplace_back();
    }
    return found->second;
  }

  StackAccounts result_;
  std::vector<analysis::LiveCounter> live_counters_;  // of each account
  std::unordered_map<std::uint64_t, std::uint32_t> index_;
  analysis::LiveMap live_;
  std::unordered_map<std::uint32_t, std::uint64_t> last_allocated_;  // by thread, if that was its last event
  std::int64_t live_bytes_ = 0, peak_bytes_ = 0;
  analysis::Mark peak_mark_ = 1;
};

}  // namespace

StackAccounts account_stacks(recording::Recording& recording) {
  Accountant accountant(recording);
  recording.for_each_event([&](const MemoryEvent& event) { accountant.visit(event); });
  return accountant.finish();
}

}  // namespace headroom::exporters
