#include "serve/ros2/diagnostics_feed.h"

#include <ctime>

#include "base/log.h"

namespace headroom::ros2 {
namespace {

// One message per second, as usual on /diagnostics: diagnostic_aggregator treats a status as stale after five
// seconds.
constexpr Nanoseconds kPeriod{1'000'000'000};

}  // namespace

void DiagnosticsFeed::add(const SystemSample& sample, const monitoring::MemoryRisk& risk,
                          std::span<const AlertEvent> active, bool has_changed) {
  // Accept a sample half an interval early: it is the nearest one.
  const bool is_due = !due_ || sample.time + Nanoseconds{interval_.count / 2} >= *due_;
  if (!is_due && !has_changed) return;
  if (is_due) {
    due_ = due_.value_or(sample.time) + kPeriod;
    if (*due_ < sample.time) due_ = sample.time + kPeriod;  // samples were late, or the interval is longer
  }
  publish(diagnostics_.of(sample, risk, active));
}

void DiagnosticsFeed::end() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  publish(diagnostics_.ended({std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec}));
}

void DiagnosticsFeed::publish(const DiagnosticArray& array) {
  if (array.status.empty()) return;
  const Status status = publisher_->publish(array);
  if (status || has_warned_) return;
  has_warned_ = true;
  log::warning("{}", status.error().sentence());
}

}  // namespace headroom::ros2
