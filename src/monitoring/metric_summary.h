// The machine's metrics in one line each: minimum, mean and maximum over the samples that had them.
#pragma once

#include <span>
#include <vector>

#include "types/bench_result.h"
#include "types/sample.h"

namespace headroom::monitoring {

// Takes the samples one by one and keeps none of them, so a week's run costs what a minute's does.
class MetricAccumulator {
 public:
  void add(const SystemSample& sample);
  // Names carry the unit, and a sensor its name: "cpu_percent", "ram_used_bytes",
  // "temperature_celsius.cpu-thermal", in the order of their first sample. A metric that no sample has is
  // left out; `n` counts those that had it.
  const std::vector<MetricSummary>& summaries() const { return metrics_; }

 private:
  std::vector<MetricSummary> metrics_;
};

std::vector<MetricSummary> summarise_metrics(std::span<const SystemSample> samples);

}  // namespace headroom::monitoring
