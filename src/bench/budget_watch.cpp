#include "bench/budget_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace headroom::bench {
namespace {

// A reading takes 30 µs: 0.6 % of a core.
constexpr std::chrono::milliseconds kBetweenSamples{5};

}  // namespace

BudgetWatch::BudgetWatch(std::function<std::optional<Bytes>()> read, Bytes budget)
    : read_(std::move(read)), budget_(budget), thread_([this] { run(); }) {}

BudgetWatch::~BudgetWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

BudgetWatch::Seen BudgetWatch::seen() {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void BudgetWatch::run() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    lock.unlock();
    const auto bytes = read_();
    lock.lock();
    if (bytes) {
      ++seen_.samples;
      if (*bytes > budget_) ++seen_.over;
      seen_.peak = std::max(seen_.peak, *bytes);
    }
    wake_.wait_for(lock, kBetweenSamples, [this] { return stopped_; });
  }
}

}  // namespace headroom::bench
