// The first half of a pass over the blocks of a recording: turns events into changes of the live blocks. The
// second half adds the changes up (RecordingAnalyzer, account_groups()). It needs no table of blocks, because
// each change has its block. So both halves touch different memory, and two cores can share the work. On one
// core, the second half handles each change at once.
#pragma once

#include <algorithm>
#include <array>
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

// Changes on their way to another thread, or until the accounts that they touch are in the cache.
class ChangeBatch {
 public:
  explicit ChangeBatch(std::size_t capacity) : changes_(capacity) {}

  std::span<const BlockChange> changes() const { return {changes_.data(), count_}; }
  // Of a change of kind `other`. The event's time ascends.
  const MemoryEvent& event_of(const BlockChange& change) const { return others_[change.block.size]; }

  bool has_room_for(std::size_t more) const { return count_ + more <= changes_.size(); }
  void add(const BlockChange& change) { changes_[count_++] = change; }
  void add_other(const MemoryEvent& event) {
    add({.block = {.size = others_.size()}, .time = event.time.count});
    others_.push_back(event);
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

  // Calls changes.add(change) or changes.add_other(event), whose time ascends, for each change by the event.
  // `Changes`: a ChangeBatch or the second half itself. Then the second half's branches follow those of this
  // half, and the processor predicts them.
  template <class Changes>
  [[gnu::flatten, gnu::noinline]] void visit(const MemoryEvent& event, Changes& changes);

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

  template <class Changes>
  void allocate(const MemoryEvent& event, std::int64_t time, Changes& changes);
  template <class Changes>
  void release(const MemoryEvent& event, std::int64_t time, Changes& changes);
  // The thread's scope may also change without an event: in the header of a segment.
  template <class Changes>
  Thread& in_scope(const MemoryEvent& event, std::uint32_t thread, std::int64_t time, Changes& changes) {
    if (thread >= threads_.size()) threads_.resize(thread + 1);
    if (event.scope != threads_[thread].scope && !event.is_weight) [[unlikely]]
      changes.add_other(enters(event, thread, time));
    return threads_[thread];
  }
  MemoryEvent enters(const MemoryEvent& event, std::uint32_t thread, std::int64_t time);
  // Of an event that is not of a block: what the second half gets.
  MemoryEvent other(const MemoryEvent& event, std::int64_t time);

  bool finds_holes_;
  LayerTree layers_;
  LiveMap live_;
  FragmentationSampler fragmentation_;
  std::vector<Thread> threads_;
  std::int64_t events_ = 0, implausible_ = 0, last_time_ = 0;
};

template <class Changes>
void BlockTracker::visit(const MemoryEvent& event, Changes& changes) {
  const std::int64_t time = std::clamp<std::int64_t>(event.time.count, last_time_, kLatestTime);
  last_time_ = time;
  ++events_;
  if (event.kind == MemoryEventKind::release) return release(event, time, changes);
  if (is_allocation(event)) return allocate(event, time, changes);
  changes.add_other(other(event, time));
}

template <class Changes>
inline void BlockTracker::allocate(const MemoryEvent& event, std::int64_t time, Changes& changes) {
  const std::uint32_t index = std::min(event.thread.index, kMostThreads);
  Thread& thread = in_scope(event, index, time, changes);
  if (event.is_weight) [[unlikely]]
    changes.add_other(other(event, time));  // its layer may be new
  LiveBlock block, lost;
  if (!make_block(event, layers_.of(event.scope), time, block)) {
    ++implausible_;
    return;
  }
  thread.last_allocated = event.address;
  if (live_.insert(block, lost)) [[unlikely]] {
    changes.add({lost, time, index, BlockChangeKind::lost});
    if (finds_holes_) fragmentation_.replaced(lost);
  }
  const bool is_sample = event.kind == MemoryEventKind::sampled_allocate;
  changes.add({block, time, index, is_sample ? BlockChangeKind::sampled : BlockChangeKind::allocated});
  if (finds_holes_) fragmentation_.allocated(block, live_, {time});
}

template <class Changes>
inline void BlockTracker::release(const MemoryEvent& event, std::int64_t time, Changes& changes) {
  const std::uint32_t index = std::min(event.thread.index, kMostThreads);
  Thread& thread = in_scope(event, index, time, changes);
  const bool was_last = std::exchange(thread.last_allocated, 0) == event.address;
  LiveBlock block;
  if (!live_.take(event.address, block))
    return changes.add({{}, time, index, BlockChangeKind::released_unknown});
  changes.add({block, time, index, BlockChangeKind::released, was_last});
  if (finds_holes_) fragmentation_.released(block, live_, {time});
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

  bool uses_thread() const { return uses_thread_; }
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

// One pass over the events. Calls accounts.add(batch), accounts.add(change) or accounts.add_other(event) for
// all changes, in order.
template <class Accounts>
void pass_over_blocks(recording::Recording& recording, BlockTracker& tracker, Accounts& accounts,
                      const BlockPass& pass) {
  // Events wait while the memory that they will touch is fetched: first their places in the table, then their
  // blocks. A cache miss takes as long as ten events; with many at once, the processor waits for few of them.
  constexpr std::size_t kTogether = 64;
  struct Group {
    std::array<MemoryEvent, kTogether> events;
    std::size_t count = 0;
  };
  std::array<Group, 2> groups;  // one fills up, the blocks of the other are on their way
  std::size_t filling = 0;
  ChangeQueue queue([&](const ChangeBatch& batch) { accounts.add(batch); }, pass.cores);
  // Later changes go through batches, too: accounts only become more.
  const auto is_direct = [&] { return !queue.uses_thread() && !accounts.outgrew_the_cache(); };
  const auto visit = [&](Group& group) {
    if (is_direct()) {
      for (std::size_t i = 0; i < group.count; ++i) tracker.visit(group.events[i], accounts);
    } else {
      if (!queue.batch().has_room_for(group.count * BlockTracker::kMostChanges)) queue.submit();
      for (std::size_t i = 0; i < group.count; ++i) tracker.visit(group.events[i], queue.batch());
    }
    group.count = 0;
  };
  const auto visit_waiting = [&] {
    visit(groups[1 - filling]);
    visit(groups[filling]);
  };
  Nanoseconds moment = pass.moment;
  const auto measure = [&] {
    visit_waiting();
    queue.finish();
    accounts.measure_peak(tracker.live());
    moment = kNever;
  };
  recording.for_each_event([&](const MemoryEvent& event) {
    if (event.time > moment) [[unlikely]]
      measure();
    if (tracker.needs_prefetch()) {
      Group& group = groups[filling];
      group.events[group.count++] = event;
      tracker.prefetch(event);
      if (group.count < kTogether) return;
      for (const MemoryEvent& waiting : group.events) tracker.prefetch_block(waiting);
      filling = 1 - filling;
      return visit(groups[filling]);
    }
    if (is_direct()) return tracker.visit(event, accounts);
    tracker.visit(event, queue.batch());
    if (!queue.batch().has_room_for(BlockTracker::kMostChanges)) queue.submit();
  });
  visit_waiting();
  if (moment <= Nanoseconds{tracker.last_time()}) measure();
  queue.finish();
}

}  // namespace headroom::attribution
