// Samples in Prometheus' text format: base units (bytes, seconds, ratios from 0 to 1), names headroom_…,
// counters that end in _total (docs/serve.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "monitoring/memory_risk.h"
#include "types/alert.h"
#include "types/sample.h"

namespace headroom::serve {

// Samples contain differences. A Prometheus counter is their sum since the start.
struct Counters {
  static constexpr std::size_t kSums = 7;
  std::array<std::optional<std::int64_t>, kSums> sums;  // absent: this machine does not report the counter
  std::optional<Nanoseconds> psi_some;
  Nanoseconds psi_full;
  std::int64_t samples = 0;
  void add(const SystemSample& sample);
};

// `rules`: all alert rules; `active`: the alerts that are firing.
std::string prometheus_text(const SystemSample& sample, const Counters& counters,
                            const monitoring::MemoryRisk& risk, std::span<const AlertRule> rules,
                            std::span<const AlertEvent> active);

// Escapes a label value for use between quotes.
std::string escaped_label(std::string_view text);

}  // namespace headroom::serve
