// What a pool told of itself while a run went on: to a file, and summed for the run's figures.
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

// Of one model since it was last asked.
struct PoolLoads {
  std::vector<std::int64_t> took_ns;
  std::int64_t unloads = 0, evictions = 0;  // so far
  std::optional<Bytes> charge;
};

// Outlives the pool: a thread whose load was given up may still tell of it.
class PoolJournal {
 public:
  // `path` of the file for the events; empty: none.
  static Result<std::shared_ptr<PoolJournal>> open(const std::string& path);
  explicit PoolJournal(std::optional<pool::EventFile> file) : file_(std::move(file)) {}

  // By the thread that it happens on.
  void add(const pool::Event& event);
  // Until it was told of so many loads and frees, which the pool counts before it tells of them, for at most
  // so long.
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
