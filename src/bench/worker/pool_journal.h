// Collects the events of a pool during a run: writes them to a file, and sums them for the run's figures.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "pool/event_file.h"
#include "pool/pool_events.h"

namespace headroom::bench {

// Loads of one model since the last take(); unloads and evictions since the start.
struct PoolLoads {
  std::vector<std::int64_t> took_ns;
  std::int64_t unloads = 0, evictions = 0;  // since the start
  std::optional<Bytes> charge;
};

// Outlives the pool: a thread whose load was abandoned may still report events.
class PoolJournal {
 public:
  // `path`: the file for the events; empty: no file.
  static Result<std::shared_ptr<PoolJournal>> open(const std::string& path);
  explicit PoolJournal(std::optional<pool::EventFile> file) : file_(std::move(file)) {}

  // Called on the thread that caused the event.
  void add(const pool::Event& event);
  // Waits until this many loads and unloads have been reported, at most `at_most`. The pool counts them
  // before it reports them.
  void wait_for(std::int64_t loads, std::int64_t unloads, Nanoseconds at_most);
  PoolLoads take(const std::string& model);
  void write(const std::string& line);
  std::int64_t lost() const { return file_ ? file_->lost() : 0; }

 private:
  std::optional<pool::EventFile> file_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::map<std::string, PoolLoads> loads_;
  std::int64_t all_loads_ = 0, all_unloads_ = 0;
};

}  // namespace headroom::bench
