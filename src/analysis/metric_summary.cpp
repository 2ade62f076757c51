#include "analysis/metric_summary.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace headroom::analysis {
namespace {

// Collects figures by name, in the order in which the names first appear.
class Collector {
 public:
  explicit Collector(std::vector<MetricSummary>& metrics) : metrics_(metrics) {}
  void add(std::string_view name, double value) {
    auto metric = std::find_if(metrics_.begin(), metrics_.end(),
                               [&](const MetricSummary& known) { return known.name == name; });
    if (metric == metrics_.end())
      metric = metrics_.insert(metrics_.end(), {std::string(name), 0, value, 0, value});
    ++metric->n;
    metric->min = std::min(metric->min, value);
    metric->max = std::max(metric->max, value);
    metric->mean += (value - metric->mean) / static_cast<double>(metric->n);
  }
  void add(std::string_view name, Bytes value) { add(name, static_cast<double>(value.count)); }
  void add(std::string_view name, std::int64_t value) { add(name, static_cast<double>(value)); }
  // A throttle alert counts as 1, so that the mean is the share of the samples that had it.
  void add(std::string_view name, bool value) { add(name, value ? 1.0 : 0.0); }
  template <class T>
  void add(std::string_view name, const std::optional<T>& value) {
    if (value) add(name, *value);
  }
  void add(std::string_view prefix, const std::vector<Reading>& readings) {
    for (const Reading& reading : readings) add(std::string(prefix) + "." + reading.name, reading.value);
  }

 private:
  std::vector<MetricSummary>& metrics_;
};

// "gpu0"; a sample of another program's text may have no number.
std::string label_of(const GpuSample& gpu) { return gpu.index ? "gpu" + std::to_string(*gpu.index) : "gpu"; }

void add_gpu(Collector& metrics, const GpuSample& gpu, bool is_one_of_several) {
  const std::string label = "." + label_of(gpu);
  // Of one GPU it is the machine's gpu_percent.
  if (is_one_of_several) metrics.add("gpu_load_percent" + label, gpu.gpu_percent);
  metrics.add("gpu_memory_used_bytes" + label, gpu.memory_used);
  metrics.add("gpu_memory_free_bytes" + label, gpu.memory_free);
  metrics.add("gpu_memory_load_percent" + label, gpu.memory_percent);
  metrics.add("gpu_encoder_percent" + label, gpu.encoder_percent);
  metrics.add("gpu_decoder_percent" + label, gpu.decoder_percent);
  metrics.add("temperature_celsius" + label, gpu.temperature_celsius);
  metrics.add("power_watts" + label, gpu.power_watts);
  metrics.add("clock_hz" + label + "-sm", gpu.sm_clock_hz);
  metrics.add("clock_hz" + label + "-memory", gpu.memory_clock_hz);
}

}  // namespace

void MetricAccumulator::add(const SystemSample& sample) {
  Collector metrics(metrics_);
  metrics.add("cpu_percent", sample.cpu_percent);
  metrics.add("gpu_percent", sample.gpu_percent);
  metrics.add("ram_used_bytes", sample.ram_used);
  metrics.add("ram_available_bytes", sample.ram_available);
  metrics.add("ram_free_bytes", sample.ram_free);
  metrics.add("ram_cached_bytes", sample.ram_cached);
  metrics.add("ram_shared_bytes", sample.ram_shared);
  metrics.add("nvmap_used_bytes", sample.nvmap_used);
  metrics.add("swap_used_bytes", sample.swap_used);
  metrics.add("psi_some_percent", sample.psi_some_avg10);
  metrics.add("psi_full_percent", sample.psi_full_avg10);
  metrics.add("pages_swapped_in", sample.pages_swapped_in);
  metrics.add("pages_swapped_out", sample.pages_swapped_out);
  metrics.add("refaults", sample.refaults);
  metrics.add("oom_kills", sample.oom_kills);
  if (sample.throttled)
    metrics.add("throttled", *sample.throttled ? 1.0 : 0.0);  // mean: share of the samples
  metrics.add("temperature_celsius", sample.temperatures_celsius);
  metrics.add("power_watts", sample.power_watts);
  metrics.add("clock_hz", sample.clocks_hz);
  for (const GpuSample& gpu : sample.gpus) add_gpu(metrics, gpu, sample.gpus.size() > 1);
}

std::vector<MetricSummary> summarise_metrics(std::span<const SystemSample> samples) {
  MetricAccumulator metrics;
  for (const SystemSample& sample : samples) metrics.add(sample);
  return metrics.summaries();
}

}  // namespace headroom::analysis
