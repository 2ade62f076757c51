#include "attribution/block_changes.h"

#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace headroom::attribution {
namespace {

// std::thread::hardware_concurrency() also counts cores that the process may not use (taskset, a container).
unsigned allowed_cores() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    return static_cast<unsigned>(CPU_COUNT(&allowed));
  return std::thread::hardware_concurrency();  // more processors than a cpu_set_t holds
}

}  // namespace

MemoryEvent BlockTracker::enters(const MemoryEvent& event, std::uint32_t thread, std::int64_t time) {
  threads_[thread].scope = event.scope;
  layers_.of(event.scope);
  MemoryEvent result = event;
  result.kind = MemoryEventKind::enter_scope;
  result.thread = {thread};
  result.time = {time};
  return result;
}

MemoryEvent BlockTracker::other(const MemoryEvent& event, std::int64_t time) {
  const std::uint32_t thread = std::min(event.thread.index, kMostThreads);
  if (thread >= threads_.size()) threads_.resize(thread + 1);
  switch (event.kind) {
    case MemoryEventKind::enter_scope:
      return enters(event, thread, time);
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
  MemoryEvent result = event;
  result.time = {time};
  return result;
}

ChangeQueue::ChangeQueue(std::function<void(const ChangeBatch&)> use, unsigned cores)
    : use_(std::move(use)), uses_thread_((cores > 0 ? cores : allowed_cores()) > 1) {
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

}  // namespace headroom::attribution
