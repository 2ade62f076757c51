#include "monitoring/metric_summary.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "monitoring/metric_walk.h"

namespace headroom::monitoring {

void MetricAccumulator::add(const SystemSample& sample) {
  for_each_metric(sample, [this](std::string_view name, double value) {
    auto metric = std::find_if(metrics_.begin(), metrics_.end(),
                               [&](const MetricSummary& known) { return known.name == name; });
    if (metric == metrics_.end())
      metric = metrics_.insert(metrics_.end(), {std::string(name), 0, value, 0, value});
    ++metric->n;
    metric->min = std::min(metric->min, value);
    metric->max = std::max(metric->max, value);
    metric->mean += (value - metric->mean) / static_cast<double>(metric->n);
  });
}

std::vector<MetricSummary> summarise_metrics(std::span<const SystemSample> samples) {
  MetricAccumulator metrics;
  for (const SystemSample& sample : samples) metrics.add(sample);
  return metrics.summaries();
}

}  // namespace headroom::monitoring
