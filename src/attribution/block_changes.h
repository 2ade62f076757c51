// The first half of a pass over the blocks of a recording: turns events into changes of the live blocks. The
// second half adds the changes up (RecordingAnalyzer, account_groups()). It needs no table of blocks, because
// each change has its block. So both halves touch different memory, and two cores can share the work.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "attribution/heap_fragmentation.h"
#include "attribution/layer_tree.h"
#include "attribution/live_map.h"
#include "recording/recording.h"
#include "types/memory_event.h"

namespace headroom::attribution {

enum class BlockChangeKind : std::uint8_t {
  allocated,
  sampled,  // allocated; represents `weight` allocations
  released,
  released_unknown,  // the block is not known
  lost,              // never released, but its address was allocated again; the next change does that
  other,             // not of a block; see ChangeBatch::event_of()
};

struct BlockChange {
  LiveBlock block;
  std::int64_t time = 0;     // of the event; ascends
  std::uint32_t thread = 0;  // of the event, at most kMostThreads
  BlockChangeKind kind = BlockChangeKind::other;
  bool is_temporary = false;  // released by the next event of the thread that allocated it
};

class ChangeBatch {
 public:
  explicit ChangeBatch(std::size_t capacity) : changes_(capacity) {}

  std::span<const BlockChange> changes() const { return {changes_.data(), count_}; }
  // Of a change of kind `other`. The event's time ascends.
  const MemoryEvent& event_of(const BlockChange& change) const { return others_[change.block.size]; }

  bool has_room_for(std::size_t more) const { return count_ + more <= changes_.size(); }
  // The next change, to fill in place: its block has any content.
  BlockChange& add(BlockChangeKind kind, std::int64_t time, std::uint32_t thread) {
    BlockChange& change = changes_[count_++];
    change.time = time;
    change.thread = thread;
    change.kind = kind;
    change.is_temporary = false;
    return change;
  }
  void remove_last() { --count_; }
  void add_other(const MemoryEvent& event, std::int64_t time, std::uint32_t thread) {
    add(BlockChangeKind::other, time, thread).block = {.size = others_.size()};
    others_.push_back(event);
    others_.back().time = {time};
  }
  void clear() {
    count_ = 0;
    others_.clear();
  }

 private:
  std::vector<BlockChange> changes_;
  std::size_t count_ = 0;
  std::vector<MemoryEvent> others_;
};

class BlockTracker {
 public:
  // `finds_holes`: measures fragmentation, if all live blocks are known.
  BlockTracker(const recording::Recording& recording, bool finds_holes)
      : finds_holes_(finds_holes && recording.info().full &&
                     !recording::has_unknown_blocks(recording.info())),
        layers_(recording),
        fragmentation_(heap_layout_of(recording.info())) {}

  // By one event.
  static constexpr std::size_t kMostChanges = 3;

  // Once visit() needs prefetching, it stays so: first prefetch(), and when that has arrived
  // prefetch_block().
  bool needs_prefetch() const { return live_.outgrew_the_cache(); }
  [[gnu::always_inline]] void prefetch(const MemoryEvent& event) const {
    live_.prefetch(event.address);
    if (finds_holes_) fragmentation_.prefetch(event.address);
  }
  [[gnu::always_inline]] void prefetch_block(const MemoryEvent& event) const {
    if (event.kind == MemoryEventKind::release) live_.prefetch_block(event.address);
  }

  // Adds the changes by the event to `batch`, in the order in which they happen.
  [[gnu::flatten]] void visit(const MemoryEvent& event, ChangeBatch& batch);

  LiveMap& live() { return live_; }
  bool finds_holes() const { return finds_holes_; }
  FragmentationSampler& fragmentation() { return fragmentation_; }
  std::int64_t events() const { return events_; }            // records read
  std::int64_t implausible() const { return implausible_; }  // allocations that were skipped
  std::int64_t last_time() const { return last_time_; }

 private:
  struct Thread {
    ScopeId scope;
    std::uint64_t last_allocated = 0;  // the address, if the thread's last event was an allocation
  };

  void allocate(const MemoryEvent& event, std::int64_t time, ChangeBatch& batch);
  void release(const MemoryEvent& event, std::int64_t time, ChangeBatch& batch);
  // The thread's scope may also change without an event: in the header of a segment.
  Thread& in_scope(const MemoryEvent& event, std::uint32_t thread, std::int64_t time, ChangeBatch& batch) {
    if (thread >= threads_.size()) threads_.resize(thread + 1);
    if (event.scope != threads_[thread].scope && !event.is_weight) [[unlikely]]
      enter(event, thread, time, batch);
    return threads_[thread];
  }
  void enter(const MemoryEvent& event, std::uint32_t thread, std::int64_t time, ChangeBatch& batch);
  void visit_other(const MemoryEvent& event, std::uint32_t thread, std::int64_t time, ChangeBatch& batch);

  bool finds_holes_;
  LayerTree layers_;
  LiveMap live_;
  FragmentationSampler fragmentation_;
  std::vector<Thread> threads_;
  std::int64_t events_ = 0, implausible_ = 0, last_time_ = 0;
};

inline void BlockTracker::visit(const MemoryEvent& event, ChangeBatch& batch) {
  const std::int64_t time = std::clamp<std::int64_t>(event.time.count, last_time_, kLatestTime);
  last_time_ = time;
  ++events_;
  if (event.kind == MemoryEventKind::release) return release(event, time, batch);
  if (is_allocation(event)) return allocate(event, time, batch);
  visit_other(event, std::min(event.thread.index, kMostThreads), time, batch);
}

inline void BlockTracker::allocate(const MemoryEvent& event, std::int64_t time, ChangeBatch& batch) {
  const std::uint32_t index = std::min(event.thread.index, kMostThreads);
  Thread& thread = in_scope(event, index, time, batch);
  const bool is_sample = event.kind == MemoryEventKind::sampled_allocate;
  if (event.is_weight) [[unlikely]]
    batch.add_other(event, time, index);  // its layer may be new
  BlockChange* change =
      &batch.add(is_sample ? BlockChangeKind::sampled : BlockChangeKind::allocated, time, index);
  if (!make_block(event, layers_.of(event.scope), time, change->block)) {
    ++implausible_;
    return batch.remove_last();
  }
  thread.last_allocated = event.address;
  LiveBlock lost;
  if (live_.insert(change->block, lost)) [[unlikely]] {
    const LiveBlock block = change->block;
    const BlockChangeKind kind = std::exchange(change->kind, BlockChangeKind::lost);
    change->block = lost;
    change = &batch.add(kind, time, index);
    change->block = block;
    if (finds_holes_) fragmentation_.replaced(lost);
  }
  if (finds_holes_) fragmentation_.allocated(change->block, live_, {time});
}

inline void BlockTracker::release(const MemoryEvent& event, std::int64_t time, ChangeBatch& batch) {
  const std::uint32_t index = std::min(event.thread.index, kMostThreads);
  Thread& thread = in_scope(event, index, time, batch);
  BlockChange& change = batch.add(BlockChangeKind::released, time, index);
  const bool was_last = std::exchange(thread.last_allocated, 0) == event.address;
  if (!live_.take(event.address, change.block)) {
    change.kind = BlockChangeKind::released_unknown;
    change.block = {};
    return;
  }
  change.is_temporary = was_last;
  if (finds_holes_) fragmentation_.released(change.block, live_, {time});
}

// Hands batches of changes to the second half: on this thread after a few changes, which are still in the
// cache, or to another thread after many.
class ChangeQueue {
 public:
  // Calls use(batch) in order; with more than one core, from another thread. All calls end before finish()
  // returns. `cores`: 0 are those that the process may use.
  ChangeQueue(std::function<void(const ChangeBatch&)> use, unsigned cores);
  ~ChangeQueue();
  ChangeQueue(const ChangeQueue&) = delete;
  ChangeQueue& operator=(const ChangeQueue&) = delete;

  ChangeBatch& batch() { return batches_[filled_ % kBatches]; }  // to fill
  void submit();
  // Submits what there is, and waits until all batches are used.
  void finish();

 private:
  static constexpr std::size_t kBatches = 4, kFewChanges = 256, kManyChanges = 8192;
  void use_all();

  std::function<void(const ChangeBatch&)> use_;
  bool uses_thread_;  // from the first full batch on
  std::vector<ChangeBatch> batches_;
  std::size_t filled_ = 0, used_ = 0;  // of all batches
  bool has_ended_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
};

inline constexpr Nanoseconds kNever{std::numeric_limits<std::int64_t>::max()};

struct BlockPass {
  // After the last event at or before this moment, all changes up to then are added, and
  // accounts.measure_peak(live) is called.
  Nanoseconds moment = kNever;
  unsigned cores = 0;  // 0: those that the process may use
};
void pass_over_blocks(recording::Recording& recording, BlockTracker& tracker, ChangeQueue& queue,
                      Nanoseconds moment, const std::function<void()>& at_moment);

// One pass over the events. Calls accounts.add(batch) for all changes, in order.
template <class Accounts>
void pass_over_blocks(recording::Recording& recording, BlockTracker& tracker, Accounts& accounts,
                      const BlockPass& pass) {
  ChangeQueue queue([&](const ChangeBatch& batch) { accounts.add(batch); }, pass.cores);
  pass_over_blocks(recording, tracker, queue, pass.moment, [&] { accounts.measure_peak(tracker.live()); });
}

}  // namespace headroom::attribution
