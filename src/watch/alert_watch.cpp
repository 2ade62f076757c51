#include "watch/alert_watch.h"

#include "base/log.h"

namespace headroom::watch {

std::span<const AlertEvent> AlertWatch::add(const SystemSample& sample) {
  risk_.add(sample);
  const std::span<const AlertEvent> events = alerts_.update(sample.time, risk_);
  for (const AlertEvent& event : events) {
    fired_ += event.fired ? 1 : 0;
    const std::string text =
        fmt::format("{:.1f} s  {}", sample.time.seconds(), monitoring::sentence_for(event));
    if (event.fired && event.severity == AlertSeverity::critical)
      log::error("alert: {}", text);
    else if (event.fired)
      log::warning("alert: {}", text);
    else
      log::info("alert: {}", text);
    actions_.act_on(event);
  }
  if (events.empty()) actions_.poll();
  return events;
}

}  // namespace headroom::watch
