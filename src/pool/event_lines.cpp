#include "pool/event_lines.h"

#include "base/json.h"

namespace headroom::pool {

std::string event_line(const Event& event) {
  Json line;
  line["event"] = name_of(event.kind);
  line["time_ns"] = event.time.count;
  line["model"] = event.model;
  line["took_ns"] = event.took.count;
  if (event.kind == EventKind::loaded) {
    line["charged_bytes"] = event.promised.count;
    line["grown_bytes"] = event.changed.count;
  }
  if (event.kind == EventKind::unloaded) {
    line["promised_bytes"] = event.promised.count;
    line["returned_bytes"] = event.changed.count;
  }
  if (event.kind == EventKind::unloaded || event.kind == EventKind::unload_hangs)
    line["cause"] = name_of(event.cause);
  if (event.refusal != Refusal::none) line["refusal"] = name_of(event.refusal);
  set_if(line, "message", event.message);
  line["used_bytes"] = event.used.count;
  line["budget_bytes"] = event.budget.count;
  return to_line(line);
}

std::string metrics_line(const Metrics& metrics, Nanoseconds time, std::int64_t lost_events) {
  Json line;
  line["event"] = "metrics";
  line["time_ns"] = time.count;
  line["requests"] = metrics.requests;
  line["hits"] = metrics.hits;
  line["waits"] = metrics.waits;
  line["refusals"] = metrics.refusals;
  line["loads"] = metrics.loads;
  line["load_failures"] = metrics.load_failures;
  line["hangs"] = metrics.hangs;
  line["evictions"] = metrics.evictions;
  line["unloads"] = metrics.unloads;
  line["load_ns"] = metrics.load_time.count;
  line["reload_ns"] = metrics.reload_time.count;
  line["wait_ns"] = metrics.wait_time.count;
  line["budget_bytes"] = metrics.budget.count;
  line["used_bytes"] = metrics.used.count;
  line["peak_used_bytes"] = metrics.peak_used.count;
  line["resident_bytes"] = metrics.resident.count;
  line["loading_bytes"] = metrics.loading.count;
  line["unaccounted_bytes"] = metrics.unaccounted.count;
  line["stuck_bytes"] = metrics.stuck.count;
  line["measured_bytes"] = metrics.measured.count;
  line["promised_bytes"] = metrics.promised.count;
  line["returned_bytes"] = metrics.returned.count;
  line["short_returns"] = metrics.short_returns;
  line["lost_events"] = lost_events;
  return to_line(line);
}

}  // namespace headroom::pool
