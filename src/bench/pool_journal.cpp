#include "bench/pool_journal.h"

#include <algorithm>
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
    loads_[event.model].took_ns.push_back(event.took.count);
    loads_[event.model].charge = event.promised;
  } else if (event.kind == pool::EventKind::unloaded) {
    // Of several the names, separated by ", ": no name of a model here has a comma.
    for (std::size_t from = 0; from <= event.model.size();) {
      const std::size_t comma = std::min(event.model.find(", ", from), event.model.size());
      PoolLoads& loads = loads_[event.model.substr(from, comma - from)];
      ++loads.unloads;
      if (event.cause == pool::UnloadCause::evicted) ++loads.evictions;
      from = comma + 2;
    }
  }
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
