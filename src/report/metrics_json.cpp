#include "report/metrics_json.h"

#include "base/text.h"
#include "report/json_fields.h"

namespace headroom::report {

void describe(auto& field, a<GpuProcess> auto& process) {
  field("pid", process.pid);
  field("used_bytes", process.used);
  field("gpu_instance", process.gpu_instance);
  field("compute_instance", process.compute_instance);
}

void describe(auto& field, a<MigInstance> auto& instance) {
  field("index", instance.index);
  field("name", instance.name);
  field("uuid", instance.uuid);
  field("gpu_instance", instance.gpu_instance);
  field("compute_instance", instance.compute_instance);
  field("memory_total_bytes", instance.memory_total);
  field("memory_used_bytes", instance.memory_used);
  field("memory_free_bytes", instance.memory_free);
  field("memory_reserved_bytes", instance.memory_reserved);
}

void describe(auto& field, a<GpuSample> auto& gpu) {
  field("index", gpu.index);
  field("name", gpu.name);
  field("uuid", gpu.uuid);
  field("pci_bus_id", gpu.pci_bus_id);
  field.unless_zero("lost", gpu.lost);
  field("gpu_percent", gpu.gpu_percent);
  field("memory_percent", gpu.memory_percent);
  field("encoder_percent", gpu.encoder_percent);
  field("decoder_percent", gpu.decoder_percent);
  field("memory_total_bytes", gpu.memory_total);
  field("memory_used_bytes", gpu.memory_used);
  field("memory_free_bytes", gpu.memory_free);
  field("memory_reserved_bytes", gpu.memory_reserved);
  field("graphics_clock_hz", gpu.graphics_clock_hz);
  field("sm_clock_hz", gpu.sm_clock_hz);
  field("memory_clock_hz", gpu.memory_clock_hz);
  field("power_watts", gpu.power_watts);
  field("power_limit_watts", gpu.power_limit_watts);
  field("temperature_celsius", gpu.temperature_celsius);
  field("throttled", gpu.throttled);
  field.unless_zero("throttle_reasons", gpu.throttle_reasons);
  field.unless_zero("clock_limits", gpu.clock_limits);
  field("mig_enabled", gpu.mig_enabled);
  field.unless_zero("mig_instances", gpu.mig_instances);
  field("processes", gpu.processes);
}

void describe(auto& field, a<SystemSample> auto& sample) {
  field("cpu_percent", sample.cpu_percent);
  field("gpu_percent", sample.gpu_percent);
  field("ram_total_bytes", sample.ram_total);
  field("ram_free_bytes", sample.ram_free);
  field("ram_available_bytes", sample.ram_available);
  field("ram_cached_bytes", sample.ram_cached);
  field("ram_shared_bytes", sample.ram_shared);
  field("ram_used_bytes", sample.ram_used);
  field("swap_total_bytes", sample.swap_total);
  field("swap_used_bytes", sample.swap_used);
  field("nvmap_used_bytes", sample.nvmap_used);
  field("psi_some_percent", sample.psi_some_avg10);
  field("psi_full_percent", sample.psi_full_avg10);
  field("pages_swapped_in", sample.pages_swapped_in);
  field("pages_swapped_out", sample.pages_swapped_out);
  field("refaults", sample.refaults);
  field("oom_kills", sample.oom_kills);
  field.readings("temperature_celsius", sample.temperatures_celsius);
  field.readings("power_watts", sample.power_watts);
  field.readings("clock_hz", sample.clocks_hz);
  field("throttled", sample.throttled);
  field.unless_zero("gpus", sample.gpus);
}

void describe(auto& field, a<NamedProcessMemory> auto& process) {
  field("model", process.model);
  field("pid", process.pid);
  field("phase", process.phase);
  auto& memory = process.memory;
  field("rss_bytes", memory.rss);
  field("rss_peak_bytes", memory.rss_peak);
  field("anonymous_bytes", memory.anonymous);
  field("file_backed_bytes", memory.file_backed);
  field("shared_bytes", memory.shared);
  field("pss_bytes", memory.pss);
  field("swapped_bytes", memory.swapped);
  field("cpu_time_ns", memory.cpu_time);
  field("threads", memory.threads);
}

void describe(auto& field, a<MetricsLine> auto& line) {
  field("time_ns", line.since_start);
  field("phase", line.phase);
  field("model", line.model);
  describe(field, line.system);
  field("processes", line.processes);
}

Json to_json(const MetricsLine& line) {
  Json document = Json::object();
  FieldWriter writer(document);
  describe(writer, line);
  return document;
}

Result<MetricsLine> metrics_line_from_json(const Json& document) {
  MetricsLine line;
  std::string problem;
  const Place root;
  FieldReader reader(document, root, problem);
  describe(reader, line);
  if (!document.is_object()) problem = "it is not an object";
  if (problem.empty() && !get_integer(document, "time_ns")) problem = "it has no time_ns";
  if (!problem.empty()) return input_error("the line of metrics.jsonl is not usable", problem);
  return line;
}

Result<std::vector<MetricsLine>> read_metrics(std::string_view jsonl) {
  std::vector<MetricsLine> lines;
  const bool last_is_cut = !jsonl.empty() && jsonl.back() != '\n';
  const auto texts = split(jsonl, '\n');
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (trim(texts[i]).empty()) continue;
    const auto document = parse_json(texts[i], "the line");
    auto line = document ? metrics_line_from_json(*document) : tl::unexpected(document.error());
    if (line) {
      lines.push_back(std::move(*line));
    } else if (i + 1 < texts.size() || !last_is_cut) {
      return input_error("metrics.jsonl is not usable", fmt::format("line {}: {}", i + 1, line.error().why));
    }
  }
  return lines;
}

}  // namespace headroom::report
