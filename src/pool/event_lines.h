// Formats a pool's events as JSON lines: one object per event, bytes and nanoseconds as integers
// (docs/model-pool.md).
#pragma once

#include <string>

#include "pool/pool_events.h"

namespace headroom::pool {

// {"event":"loaded","time_ns":…,"model":"face","took_ns":…,"used_bytes":…,"budget_bytes":…, …}, without a
// newline.
std::string event_line(const Event& event);
// {"event":"metrics", …}: every counter. `lost_events`: earlier lines that could not be written.
std::string metrics_line(const Metrics& metrics, Nanoseconds time, std::int64_t lost_events);

}  // namespace headroom::pool
