// The machine's metrics in one line each: minimum, mean and maximum over the samples that had them.
#pragma once

#include <span>
#include <vector>

#include "model/bench_result.h"
#include "model/sample.h"

namespace headroom::analysis {

// Names carry the unit, and a sensor its name: "cpu_percent", "ram_used_bytes",
// "temperature_celsius.cpu-thermal". A metric that no sample has is left out; `n` counts those that had it.
std::vector<MetricSummary> summarise_metrics(std::span<const SystemSample> samples);

}  // namespace headroom::analysis
