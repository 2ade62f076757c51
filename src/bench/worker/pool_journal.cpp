#include "bench/worker/pool_journal.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "pool/event_lines.h"

namespace headroom::bench {

Result<std::shared_ptr<PoolJournal>> PoolJournal::open(const std::string& path) {
  if (path.empty()) return std::make_shared<PoolJournal>(std::nullopt);
  auto file = pool::EventFile::open(path);
  if (!file) return forward_error(file);
  return std::make_shared<PoolJournal>(std::move(*file));
}

void PoolJournal::add(const pool::Event& event) {
  if (file_) file_->write(pool::event_line(event));
  const std::lock_guard lock(mutex_);
  if (event.kind == pool::EventKind::loaded) {
    ++all_loads_;
    loads_[event.model].took_ns.push_back(event.took.count);
    loads_[event.model].charge = event.promised;
  } else if (event.kind == pool::EventKind::unloaded) {
    // One event can name several models, separated by ", ". No model name here contains a comma.
    for (std::size_t from = 0; from <= event.model.size();) {
      const std::size_t comma = std::min(event.model.find(", ", from), event.model.size());
      PoolLoads& loads = loads_[event.model.substr(from, comma - from)];
      ++loads.unloads;
      ++all_unloads_;
      if (event.cause == pool::UnloadCause::evicted) ++loads.evictions;
      from = comma + 2;
    }
  }
  added_.notify_all();
}

void PoolJournal::wait_for(std::int64_t loads, std::int64_t unloads, Nanoseconds at_most) {
  std::unique_lock lock(mutex_);
  added_.wait_for(lock, std::chrono::nanoseconds(at_most.count),
                  [&] { return all_loads_ >= loads && all_unloads_ >= unloads; });
}

PoolLoads PoolJournal::take(const std::string& model) {
  const std::lock_guard lock(mutex_);
  PoolLoads& loads = loads_[model];
  return {std::exchange(loads.took_ns, {}), loads.unloads, loads.evictions, loads.charge};
}

void PoolJournal::write(const std::string& line) {
  if (file_) file_->write(line);
}

}  // namespace headroom::bench
