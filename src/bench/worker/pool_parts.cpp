#include "bench/worker/pool_parts.h"

#include <chrono>
#include <utility>

#include "base/text.h"
#include "pool/pool_events.h"

namespace headroom::bench {

TaskThreads::TaskThreads(std::size_t count) {
  for (std::size_t i = 0; count > 1 && i < count; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
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

void TaskThreads::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (begins_.wait(lock, stop, [this] { return next_ < count_; })) {
    const std::size_t mine = next_++;
    lock.unlock();
    (*task_)(mine);
    lock.lock();
    ++ended_;
    ends_.notify_one();
  }
}

Result<std::shared_ptr<PoolJournal>> PoolJournal::open(const std::string& path) {
  auto file = pool::EventFile::open(path);
  if (!file) return forward_error(file);
  return std::make_shared<PoolJournal>(std::move(*file));
}

void PoolJournal::add(const pool::Event& event) {
  if (file_) file_->write(pool::event_line(event));
  const std::lock_guard lock(mutex_);
  if (event.kind == pool::EventKind::loaded) {
    ++all_loads_;
    models_[event.model].loads.push_back(event.took.count);
    models_[event.model].counters.charge = event.promised;
  } else if (event.kind == pool::EventKind::unloaded) {
    // One event can name several models, separated by ", ". No model name here contains a comma.
    for (const std::string_view name : split(event.model, ',')) {
      PooledModel& counters = models_[std::string(trim(name))].counters;
      ++counters.unloads;
      ++all_unloads_;
      if (event.cause == pool::UnloadCause::evicted) ++counters.evictions;
    }
  }
  added_.notify_all();
}

void PoolJournal::wait_for(std::int64_t loads, std::int64_t unloads, Nanoseconds at_most) {
  std::unique_lock lock(mutex_);
  added_.wait_for(lock, std::chrono::nanoseconds(at_most.count),
                  [&] { return all_loads_ >= loads && all_unloads_ >= unloads; });
}

PooledAccount PoolJournal::take(const std::string& model) {
  const std::lock_guard lock(mutex_);
  PooledAccount& account = models_[model];
  return {account.counters, std::exchange(account.loads, {}), {}};
}

void PoolJournal::write(const std::string& line) {
  if (file_) file_->write(line);
}

}  // namespace headroom::bench
