#include "bench/worker/task_threads.h"

namespace headroom::bench {

TaskThreads::TaskThreads(std::size_t count) {
  if (count < 2) return;
  try {
    for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
  } catch (...) {
    stop();
    throw;
  }
}

TaskThreads::~TaskThreads() { stop(); }

void TaskThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  begins_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TaskThreads::run(std::size_t count, const std::function<void(std::size_t)>& task,
                      const std::function<void()>& done) {
  if (threads_.empty()) {
    for (std::size_t i = 0; i < count; ++i) {
      task(i);
      done();
    }
    return;
  }
  std::unique_lock lock(mutex_);
  task_ = &task;
  next_ = ended_ = 0;
  count_ = count;
  begins_.notify_all();
  for (std::size_t seen = 0; seen < count;) {
    ends_.wait(lock, [&] { return ended_ > seen; });
    seen = ended_;
    lock.unlock();
    done();
    lock.lock();
  }
}

void TaskThreads::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    begins_.wait(lock, [this] { return stopped_ || next_ < count_; });
    if (stopped_) return;
    const std::size_t mine = next_++;
    lock.unlock();
    (*task_)(mine);
    lock.lock();
    ++ended_;
    ends_.notify_one();
  }
}

}  // namespace headroom::bench
