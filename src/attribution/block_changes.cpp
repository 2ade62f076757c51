#include "attribution/block_changes.h"

#include <array>
#include <thread>
#include <utility>

namespace headroom::attribution {

void BlockTracker::enter(const MemoryEvent& event, std::uint32_t thread, std::int64_t time,
                         ChangeBatch& batch) {
  threads_[thread].scope = event.scope;
  layers_.of(event.scope);
  MemoryEvent enters = event;
  enters.kind = MemoryEventKind::enter_scope;
  batch.add_other(enters, time, thread);
}

void BlockTracker::visit_other(const MemoryEvent& event, std::uint32_t thread, std::int64_t time,
                               ChangeBatch& batch) {
  if (thread >= threads_.size()) threads_.resize(thread + 1);
  switch (event.kind) {
    case MemoryEventKind::enter_scope:
      return enter(event, thread, time, batch);
    case MemoryEventKind::gap:
      threads_[thread].last_allocated = 0;
      break;
    case MemoryEventKind::release_counters:  // the second half of a record
    case MemoryEventKind::device_holder:     // a part of the previous refusal
    case MemoryEventKind::weight:            // handled by the reader
      --events_;
      break;
    default:
      break;
  }
  if (has_layer(event.kind)) layers_.of(event.scope);
  batch.add_other(event, time, thread);
}

ChangeQueue::ChangeQueue(std::function<void(const ChangeBatch&)> use, unsigned cores)
    : use_(std::move(use)), uses_thread_((cores > 0 ? cores : std::thread::hardware_concurrency()) > 1) {
  batches_.reserve(kBatches);
  batches_.emplace_back(uses_thread_ ? kManyChanges : kFewChanges);
}

ChangeQueue::~ChangeQueue() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ChangeQueue::submit() {
  ChangeBatch& full = batches_[filled_ % kBatches];
  if (!uses_thread_) {
    use_(full);
    return full.clear();
  }
  if (!thread_.joinable()) {
    while (batches_.size() < kBatches) batches_.emplace_back(kManyChanges);
    thread_ = std::thread([this] { use_all(); });
  }
  std::unique_lock lock(mutex_);
  ++filled_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return filled_ - used_ < kBatches; });
}

void ChangeQueue::finish() {
  if (!thread_.joinable()) {
    use_(batches_[0]);
    return batches_[0].clear();
  }
  submit();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return filled_ == used_; });
}

void ChangeQueue::use_all() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return filled_ != used_ || has_ended_; });
    if (filled_ == used_) return;
    ChangeBatch& next = batches_[used_ % kBatches];
    lock.unlock();
    use_(next);
    next.clear();
    lock.lock();
    ++used_;
    changed_.notify_all();
  }
}

void pass_over_blocks(recording::Recording& recording, BlockTracker& tracker, ChangeQueue& queue,
                      Nanoseconds moment, const std::function<void()>& at_moment) {
  // Events wait while the memory that they will touch is fetched: first their places in the table, then their
  // blocks. A cache miss takes as long as ten events; with many at once, the processor waits for few of them.
  constexpr std::size_t kTogether = 64;
  struct Group {
    std::array<MemoryEvent, kTogether> events;
    std::size_t count = 0;
  };
  std::array<Group, 2> groups;  // one fills up, the blocks of the other are on their way
  std::size_t filling = 0;
  const auto visit = [&](Group& group) {
    if (!queue.batch().has_room_for(group.count * BlockTracker::kMostChanges)) queue.submit();
    for (std::size_t i = 0; i < group.count; ++i) tracker.visit(group.events[i], queue.batch());
    group.count = 0;
  };
  const auto visit_waiting = [&] {
    visit(groups[1 - filling]);
    visit(groups[filling]);
  };
  const auto measure = [&] {
    visit_waiting();
    queue.finish();
    at_moment();
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
    tracker.visit(event, queue.batch());
    if (!queue.batch().has_room_for(BlockTracker::kMostChanges)) queue.submit();
  });
  visit_waiting();
  if (moment <= Nanoseconds{tracker.last_time()}) measure();
  queue.finish();
}

}  // namespace headroom::attribution
