// Threads that run the tasks of a round, in order of their numbers; the round ends with the last task.
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
  // With `count` 1, tasks run on the caller's thread. Throws std::system_error if no thread can be created.
  explicit TaskThreads(std::size_t count);
  TaskThreads(const TaskThreads&) = delete;
  ~TaskThreads();

  // Calls task(0) to task(count - 1). Calls `done` on the caller's thread each time some tasks have ended,
  // including the last.
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
  std::vector<std::thread> threads_;  // last, because they use the members above
};

}  // namespace headroom::bench
