#include "serve/httplib/growing_pool.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace headroom::serve {

Crowd::Crowd() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Crowd::set(bool is_there) {
  if (is_there_.exchange(is_there) == is_there) return;
  eventfd_t count = 0;
  if (is_there)
    ::eventfd_write(event_.get(), 1);
  else
    ::eventfd_read(event_.get(), &count);
}

GrowingPool::GrowingPool(const std::atomic<bool>& is_ending, Crowd& crowd, PoolBounds bounds)
    : is_ending_(is_ending), crowd_(crowd), bounds_(bounds) {}

void GrowingPool::enqueue(std::function<void()> job) {
  std::unique_lock lock(mutex_);
  const auto has_room = [&] { return jobs_.size() + busy_ < bounds_.most || stopping_; };
  while (!room_.wait_for(lock, std::chrono::milliseconds(100), has_room))
    if (is_ending_) return;
  for (std::thread& thread : std::exchange(ended_, {})) thread.join();
  jobs_.push_back(std::move(job));
  const std::size_t needed = jobs_.size() + busy_;
  crowd_.set(needed > bounds_.crowd);
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
  room_.notify_all();
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
      if (is_one_too_many()) return leave();
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
    crowd_.set(jobs_.size() + busy_ > bounds_.crowd);
    room_.notify_one();
    if (is_one_too_many()) return leave();
  }
}

// Not by how long this thread had nothing to do: a request a second goes round all of them.
bool GrowingPool::is_one_too_many() const {
  return !stopping_ && jobs_.empty() && threads_.size() > bounds_.fewest &&
         monotonic_now() - all_needed_ > bounds_.idle;
}

void GrowingPool::leave() {
  const auto self = std::find_if(threads_.begin(), threads_.end(), [](const std::thread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
  ended_.push_back(std::move(*self));
  threads_.erase(self);
}

}  // namespace headroom::serve
