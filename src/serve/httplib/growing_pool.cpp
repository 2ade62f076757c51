#include "serve/httplib/growing_pool.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace headroom::serve {

HighLoad::HighLoad() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void HighLoad::set(bool is_high) {
  if (is_high_.exchange(is_high) == is_high) return;
  eventfd_t count = 0;
  if (is_high)
    ::eventfd_write(event_.get(), 1);
  else
    ::eventfd_read(event_.get(), &count);
}

GrowingPool::GrowingPool(const std::atomic<bool>& is_ending, HighLoad& high_load, PoolBounds bounds)
    : is_ending_(is_ending), high_load_(high_load), bounds_(bounds) {}

void GrowingPool::enqueue(std::function<void()> job) {
  std::unique_lock lock(mutex_);
  const auto has_free_slot = [&] { return jobs_.size() + busy_ < bounds_.max_jobs || stopping_; };
  while (!slot_free_.wait_for(lock, std::chrono::milliseconds(100), has_free_slot))
    if (is_ending_) return;
  for (std::thread& thread : std::exchange(ended_, {})) thread.join();
  jobs_.push_back(std::move(job));
  const std::size_t needed = jobs_.size() + busy_;
  high_load_.set(needed > bounds_.high_load);
  if (needed > threads_.size()) threads_.emplace_back([this] { work(); });
  if (needed >= threads_.size()) all_needed_ = monotonic_now();
  wake_.notify_one();
}

void GrowingPool::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  slot_free_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  for (std::thread& thread : ended_) thread.join();
}

std::size_t GrowingPool::threads() {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

void GrowingPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto has_work = [&] { return !jobs_.empty() || stopping_; };
    if (!wake_.wait_for(lock, std::chrono::nanoseconds(bounds_.idle.count), has_work)) {
      if (has_surplus_thread()) return end_this_thread();
      continue;
    }
    if (jobs_.empty()) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    ++busy_;
    lock.unlock();
    job();
    lock.lock();
    --busy_;
    high_load_.set(jobs_.size() + busy_ > bounds_.high_load);
    slot_free_.notify_one();
    if (has_surplus_thread()) return end_this_thread();
  }
}

// True if the pool had an idle thread for longer than `idle`. The idle time of a single thread cannot show
// this, because one request per second wakes each thread in turn.
bool GrowingPool::has_surplus_thread() const {
  return !stopping_ && jobs_.empty() && threads_.size() > bounds_.min_threads &&
         monotonic_now() - all_needed_ > bounds_.idle;
}

void GrowingPool::end_this_thread() {
  const auto self = std::ranges::find(threads_, std::this_thread::get_id(), &std::thread::get_id);
  ended_.push_back(std::move(*self));
  threads_.erase(self);
}

}  // namespace headroom::serve
