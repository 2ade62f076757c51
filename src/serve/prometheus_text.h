// Samples in Prometheus' text format: base units (bytes, seconds, ratios from 0 to 1), names headroom_…,
// counters that end in _total (docs/serve.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "monitoring/memory_risk.h"
#include "types/alert.h"
#include "types/sample.h"

namespace headroom::serve {

// Samples contain differences. A Prometheus counter is their sum since the start.
struct Counters {
  std::int64_t pages_swapped_in = 0, pages_swapped_out = 0, refaults = 0, oom_kills = 0;
  std::int64_t allocation_stalls = 0, compaction_failures = 0, major_faults = 0, samples = 0;
  Nanoseconds psi_some, psi_full;
  // Which counters this machine reports.
  bool has_pages = false, has_refaults = false, has_oom_kills = false, has_stalls = false,
       has_compaction = false, has_faults = false, has_psi = false;
  void add(const SystemSample& sample);
};

// `rules`: all alert rules; `active`: the alerts that are firing.
std::string prometheus_text(const SystemSample& sample, const Counters& counters,
                            const monitoring::MemoryRisk& risk, std::span<const AlertRule> rules,
                            std::span<const AlertEvent> active);

// Escapes a label value for use between quotes.
std::string escaped_label(std::string_view text);

}  // namespace headroom::serve
