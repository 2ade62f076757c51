#include "serve/live_state.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "monitoring/sample_metrics.h"
#include "watch/sample_log.h"

namespace headroom::serve {
namespace {

constexpr std::size_t kMostEvents = 100;
// 3,600 points make a response of about 300 KB. All 36,000 stored points would be 3 MB, and 30 MB while the
// JSON is built.
constexpr std::size_t kMaxPointsInResponse = 3'600;

using monitoring::MemoryStack;

// The columns of the history. Bytes are whole numbers, and so are their doubles.
constexpr std::array<const char*, HistoryPoint::kFigures> kColumns{
    "total_bytes", "used_bytes",      "free_bytes", "cache_bytes",      "processes_bytes",
    "gpu_bytes",   "system_bytes",    "swap_bytes", "gpu_memory_bytes", "cpu_percent",
    "gpu_percent", "hottest_celsius", "power_watts"};

std::optional<double> largest(const std::vector<Reading>& readings) {
  const auto found = std::ranges::max_element(readings, {}, &Reading::value);
  return found == readings.end() ? std::nullopt : std::optional(found->value);
}

HistoryPoint point_of(const SystemSample& sample) {
  const auto number = [](const std::optional<Bytes>& bytes) {
    return bytes ? std::optional(static_cast<double>(bytes->count)) : std::nullopt;
  };
  const auto stack = monitoring::memory_stack_of(sample);
  const auto part = [&](Bytes MemoryStack::*figure) {
    return stack ? std::optional(static_cast<double>(((*stack).*figure).count)) : std::nullopt;
  };
  std::optional<Bytes> gpu_memory;  // of discrete GPUs
  for (const GpuSample& gpu : sample.gpus)
    if (gpu.memory_used) gpu_memory = gpu_memory.value_or(Bytes{}) + *gpu.memory_used;
  // Rails are parts of each other. The largest one is the board's input, or close to it.
  return {sample.unix_time.value_or(Nanoseconds{}).count / 1'000'000,
          {number(sample.ram_total), number(sample.ram_used), number(sample.ram_free),
           part(&MemoryStack::cache), part(&MemoryStack::processes), part(&MemoryStack::gpu),
           part(&MemoryStack::system), number(sample.swap_used), number(gpu_memory), sample.cpu_percent,
           sample.gpu_percent, largest(sample.temperatures_celsius), largest(sample.power_watts)}};
}

Json json_of(const std::optional<double>& value) {
  if (!value) return {};
  return *value == std::floor(*value) && std::abs(*value) < 9e15 ? Json(std::llround(*value)) : Json(*value);
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
  Json document = {{"unix_ms", std::move(times)}};
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    Json& column = document[kColumns[i]] = Json::array();
    for (const HistoryPoint& point : points) column.push_back(json_of(point.figures[i]));
  }
  return to_line(document) + "\n";
}

std::optional<double> LiveState::age_seconds() {
  const std::lock_guard lock(mutex_);
  return updated_ ? std::optional((monotonic_now() - *updated_).seconds()) : std::nullopt;
}

}  // namespace headroom::serve
