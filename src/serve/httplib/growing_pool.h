// The thread pool of the server: one thread for each open connection.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/units.h"

namespace headroom::serve {

// Whether the server is close to its maximum of connections. The server then closes idle connections, so that
// new ones do not have to wait.
class HighLoad {
 public:
  HighLoad();
  // Not thread-safe: the caller holds a lock.
  void set(bool is_high);
  bool is_high() const { return is_high_; }
  int fd() const { return event_.get(); }  // readable while the load is high

 private:
  std::atomic<bool> is_high_ = false;
  UniqueFd event_;
};

struct PoolBounds {
  std::size_t max_jobs = 64;    // connections at once
  std::size_t high_load = 48;   // with more jobs than this, the load is high
  std::size_t min_threads = 4;  // these threads never end
  Nanoseconds idle{30'000'000'000};
};

// A thread pool that grows and shrinks. It starts a thread when all are busy, and ends one when the pool had
// idle threads for longer than `idle`. At `max_jobs` the accepting thread waits, and new connections wait in
// the kernel.
class GrowingPool {
 public:
  // `is_ending` must be set before the server stops: the accepting thread may be waiting in enqueue().
  GrowingPool(const std::atomic<bool>& is_ending, HighLoad& high_load, PoolBounds bounds = {});
  void enqueue(std::function<void()> job);
  // Waits for all jobs. Must be called before the destructor.
  void shutdown();
  std::size_t threads();

 private:
  void work();
  bool has_surplus_thread() const;
  void end_this_thread();

  const std::atomic<bool>& is_ending_;
  HighLoad& high_load_;  // set under the mutex
  PoolBounds bounds_;
  std::mutex mutex_;
  std::condition_variable wake_, slot_free_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_, ended_;  // ended_: still to be joined
  std::size_t busy_ = 0;
  Nanoseconds all_needed_;  // the last time when all threads were busy
  bool stopping_ = false;
};

}  // namespace headroom::serve
