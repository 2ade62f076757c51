// The data that the server answers from: the last sample, the history and the alerts. The sampling thread
// writes it; the threads that answer requests read it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/prometheus_text.h"
#include "types/alert.h"
#include "types/sample.h"
#include "watch/alert_watch.h"

namespace headroom::serve {

// One point of the page's charts.
struct HistoryPoint {
  static constexpr std::size_t kFigures = 13;
  std::int64_t unix_ms = 0;
  std::array<std::optional<double>, kFigures> figures;
};

class LiveState {
 public:
  // `keep`: the number of history points.
  LiveState(std::vector<AlertRule> rules, std::size_t keep) : rules_(std::move(rules)), keep_(keep) {}

  void update(const SystemSample& sample, const watch::AlertWatch& alerts,
              std::span<const AlertEvent> events);

  // The text is made at the first request after a sample, and cached until the next sample. Empty before the
  // first sample.
  std::shared_ptr<const std::string> metrics();
  std::shared_ptr<const std::string> sample_json();
  // The active alerts and the last hundred events.
  std::string alerts_json();
  // Points after `since` (milliseconds since 1970), one column for each figure; absent figures are null. All
  // points if `since` is in the future. If there are more than 3,600 points, only every n-th is returned,
  // always with the newest.
  std::string history_json(std::int64_t since);
  // Seconds since the last sample; absent before the first.
  std::optional<double> age_seconds();

 private:
  struct Last {
    SystemSample sample;
    monitoring::MemoryRisk risk;
    std::vector<AlertEvent> active;
  };
  std::vector<HistoryPoint> points_after(std::int64_t since);

  const std::vector<AlertRule> rules_;
  const std::size_t keep_;
  std::mutex mutex_, history_mutex_;
  std::optional<Last> last_;
  std::optional<Nanoseconds> updated_;
  Counters counters_;
  std::deque<HistoryPoint> history_;
  std::deque<AlertEvent> events_;
  std::shared_ptr<const std::string> metrics_, sample_json_;
};

}  // namespace headroom::serve
