#include "serve/live_state.h"

#include <algorithm>

#include "base/json.h"
#include "base/units.h"
#include "monitoring/sample_metrics.h"
#include "watch/alert_watch.h"
#include "watch/sample_log.h"

namespace headroom::serve {
namespace {

constexpr std::size_t kMostEvents = 100;
// 3,600 points make a response of about 300 KB. All 36,000 stored points would be 3 MB, and 30 MB while the
// JSON is built.
constexpr std::size_t kMaxPointsInResponse = 3'600;

HistoryPoint point_of(const SystemSample& sample) {
  HistoryPoint point;
  if (sample.unix_time) point.unix_ms = sample.unix_time->count / 1'000'000;
  point.total = sample.ram_total;
  point.used = sample.ram_used;
  point.free = sample.ram_free;
  if (const auto stack = monitoring::memory_stack_of(sample)) {
    point.cache = stack->cache;
    point.processes = stack->processes;
    point.gpu = stack->gpu;
    point.system = stack->system;
  }
  point.swap = sample.swap_used;
  point.cpu_percent = sample.cpu_percent;
  point.gpu_percent = sample.gpu_percent;
  for (const GpuSample& gpu : sample.gpus)
    if (gpu.memory_used) point.gpu_memory = point.gpu_memory.value_or(Bytes{}) + *gpu.memory_used;
  for (const Reading& reading : sample.temperatures_celsius)
    point.hottest_celsius = std::max(point.hottest_celsius.value_or(reading.value), reading.value);
  // Rails are parts of each other. The largest one is the board's input, or close to it.
  for (const Reading& reading : sample.power_watts)
    point.power_watts = std::max(point.power_watts.value_or(reading.value), reading.value);
  return point;
}

template <class Member>
Json column(const std::vector<HistoryPoint>& points, Member member) {
  Json values = Json::array();
  for (const HistoryPoint& point : points) {
    const auto& value = point.*member;
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::optional<Bytes>>)
      values.push_back(value ? Json(value->count) : Json());
    else
      values.push_back(value ? Json(*value) : Json());
  }
  return values;
}

}  // namespace

void LiveState::update(const SystemSample& sample, const watch::AlertWatch& alerts,
                       std::span<const AlertEvent> events) {
  const std::lock_guard lock(mutex_);
  last_.emplace(Last{sample, alerts.risk(), alerts.active()});
  updated_ = monotonic_now();
  counters_.add(sample);
  metrics_.reset();
  sample_json_.reset();
  const HistoryPoint point = point_of(sample);
  // The wall clock was set back. No client would ask for the older points again.
  if (!history_.empty() && point.unix_ms < history_.back().unix_ms) history_.clear();
  history_.push_back(point);
  while (history_.size() > keep_) history_.pop_front();
  for (const AlertEvent& event : events) {
    events_.push_back(event);
    if (events_.size() > kMostEvents) events_.pop_front();
  }
}

std::shared_ptr<const std::string> LiveState::metrics() {
  const std::lock_guard lock(mutex_);
  if (!metrics_)
    metrics_ = std::make_shared<const std::string>(
        last_ ? prometheus_text(last_->sample, counters_, last_->risk, rules_, last_->active) : "");
  return metrics_;
}

std::shared_ptr<const std::string> LiveState::sample_json() {
  const std::lock_guard lock(mutex_);
  if (!sample_json_)
    sample_json_ = std::make_shared<const std::string>(last_ ? watch::json_line(last_->sample) : "");
  return sample_json_;
}

std::string LiveState::alerts_json() {
  std::vector<AlertEvent> active;
  std::deque<AlertEvent> events;
  {
    const std::lock_guard lock(mutex_);
    if (last_) active = last_->active;
    events = events_;
  }
  Json document = {{"active", Json::array()}, {"events", Json::array()}};
  for (const AlertEvent& event : active) document["active"].push_back(watch::to_json(event));
  for (const AlertEvent& event : events) document["events"].push_back(watch::to_json(event));
  return to_line(document) + "\n";
}

std::vector<HistoryPoint> LiveState::points_after(std::int64_t since) {
  const std::lock_guard lock(mutex_);
  // A client that asks for points after a future time has seen another clock, so it gets all points.
  if (!history_.empty() && since > history_.back().unix_ms) since = -1;
  const auto first = std::partition_point(history_.begin(), history_.end(),
                                          [&](const HistoryPoint& point) { return point.unix_ms <= since; });
  const auto count = static_cast<std::size_t>(history_.end() - first);
  const std::size_t step =
      std::max<std::size_t>(1, (count + kMaxPointsInResponse - 1) / kMaxPointsInResponse);
  std::vector<HistoryPoint> points;
  points.reserve(count / step + 1);
  // Always return the newest point: the client's next request asks for points after it.
  for (std::size_t left = count; left > 0; --left)
    if ((left - 1) % step == 0) points.push_back(history_[history_.size() - left]);
  return points;
}

std::string LiveState::history_json(std::int64_t since) {
  // Build one response at a time (memory), and not under the lock that the sampling thread needs.
  const std::lock_guard lock(history_mutex_);
  const std::vector<HistoryPoint> points = points_after(since);
  Json times = Json::array();
  for (const HistoryPoint& point : points) times.push_back(point.unix_ms);
  const Json document = {{"unix_ms", std::move(times)},
                         {"total_bytes", column(points, &HistoryPoint::total)},
                         {"used_bytes", column(points, &HistoryPoint::used)},
                         {"free_bytes", column(points, &HistoryPoint::free)},
                         {"cache_bytes", column(points, &HistoryPoint::cache)},
                         {"processes_bytes", column(points, &HistoryPoint::processes)},
                         {"gpu_bytes", column(points, &HistoryPoint::gpu)},
                         {"system_bytes", column(points, &HistoryPoint::system)},
                         {"swap_bytes", column(points, &HistoryPoint::swap)},
                         {"gpu_memory_bytes", column(points, &HistoryPoint::gpu_memory)},
                         {"cpu_percent", column(points, &HistoryPoint::cpu_percent)},
                         {"gpu_percent", column(points, &HistoryPoint::gpu_percent)},
                         {"hottest_celsius", column(points, &HistoryPoint::hottest_celsius)},
                         {"power_watts", column(points, &HistoryPoint::power_watts)}};
  return to_line(document) + "\n";
}

std::optional<double> LiveState::age_seconds() {
  const std::lock_guard lock(mutex_);
  return updated_ ? std::optional((monotonic_now() - *updated_).seconds()) : std::nullopt;
}

}  // namespace headroom::serve
