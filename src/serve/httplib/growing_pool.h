// The threads that serve: one a connection, as they are needed.
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

// Whether nearly as many are served as can be. Then nobody keeps a connection that it does not use, for those
// who come have to wait.
class Crowd {
 public:
  Crowd();
  // By one thread at a time.
  void set(bool is_there);
  bool is_there() const { return is_there_; }
  int fd() const { return event_.get(); }  // readable while it is there

 private:
  std::atomic<bool> is_there_ = false;
  UniqueFd event_;
};

struct PoolBounds {
  std::size_t most = 64;   // connections at once
  std::size_t crowd = 48;  // more than these leave little room
  std::size_t fewest = 4;  // threads that stay
  Nanoseconds idle{30'000'000'000};
};

// Threads come as they are needed, and go when some were too many for `idle`. Beyond the most the accepting
// thread waits, and so do newer connections, in the kernel.
class GrowingPool {
 public:
  // `is_ending`: set before the server is told to stop, as the thread that would tell us may wait for room.
  GrowingPool(const std::atomic<bool>& is_ending, Crowd& crowd, PoolBounds bounds = {});
  void enqueue(std::function<void()> job);
  // Waits for the jobs. Must have been called before it is destroyed.
  void shutdown();
  std::size_t threads();

 private:
  void work();
  bool is_one_too_many() const;
  void leave();

  const std::atomic<bool>& is_ending_;
  Crowd& crowd_;  // set under the mutex
  PoolBounds bounds_;
  std::mutex mutex_;
  std::condition_variable wake_, room_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_, ended_;  // the latter to be joined
  std::size_t busy_ = 0;
  Nanoseconds all_needed_;  // when they last were
  bool stopping_ = false;
};

}  // namespace headroom::serve
