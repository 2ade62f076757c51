// Parts of a run with a pool: the threads that request models, and the journal of the pool's events.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "bench/protocol.h"
#include "pool/pool_events.h"

namespace headroom::bench {

// Threads that run the tasks of a round, in order of their numbers; the round ends with the last task.
class TaskThreads {
 public:
  // With `count` 1, tasks run on the caller's thread. Throws std::system_error if no thread can be created.
  explicit TaskThreads(std::size_t count);
  TaskThreads(const TaskThreads&) = delete;

  // Calls task(0) to task(count - 1). Calls `done` on the caller's thread each time some tasks have ended,
  // including the last.
  void run(std::size_t count, const std::function<void(std::size_t)>& task,
           const std::function<void()>& done);

 private:
  void work(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any begins_;
  std::condition_variable ends_;
  const std::function<void(std::size_t)>* task_ = nullptr;
  std::size_t next_ = 0, count_ = 0, ended_ = 0;
  std::vector<std::jthread> threads_;  // last, because they use the members above
};

// Collects the events of a pool during a run: writes them to a file, and sums them for the run's figures.
// Outlives the pool: a thread whose load was abandoned may still report events.
class PoolJournal {
 public:
  // `path`: the file for the events.
  static Result<std::shared_ptr<PoolJournal>> open(const std::string& path);
  explicit PoolJournal(std::optional<pool::EventFile> file) : file_(std::move(file)) {}

  // Called on the thread that caused the event.
  void add(const pool::Event& event);
  // Waits until this many loads and unloads have been reported, at most `at_most`. The pool counts them
  // before it reports them.
  void wait_for(std::int64_t loads, std::int64_t unloads, Nanoseconds at_most);
  // The model's loads since the last call, its charge, and its unloads and evictions since the start.
  PooledAccount take(const std::string& model);
  void write(const std::string& line);
  std::int64_t lost() const { return file_ ? file_->lost() : 0; }

 private:
  std::optional<pool::EventFile> file_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::map<std::string, PooledAccount> models_;
  std::int64_t all_loads_ = 0, all_unloads_ = 0;
};

}  // namespace headroom::bench
