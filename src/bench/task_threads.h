// Threads that do the tasks of a round, first come first; the round ends with the last of them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace headroom::bench {

class TaskThreads {
 public:
  // `count` of 1: the caller's own thread, and no other. Throws std::system_error where there are no threads.
  explicit TaskThreads(std::size_t count);
  TaskThreads(const TaskThreads&) = delete;
  ~TaskThreads();

  // Calls task(0) to task(count - 1), and on this thread `done` whenever some of them have ended, the last
  // included.
  void run(std::size_t count, const std::function<void(std::size_t)>& task,
           const std::function<void()>& done);

 private:
  void work();
  void stop();

  std::mutex mutex_;
  std::condition_variable begins_, ends_;
  const std::function<void(std::size_t)>* task_ = nullptr;
  std::size_t next_ = 0, count_ = 0, ended_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;  // last: they use what stands above
};

}  // namespace headroom::bench
