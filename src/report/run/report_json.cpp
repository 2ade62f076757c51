#include "report/run/report_json.h"

#include <fmt/format.h>

#include <cmath>
#include <istream>

#include "base/text.h"
#include "report/run/report_fields.h"
#include "report/run/run_words.h"
#include "report/words.h"

namespace headroom::report {

void describe(auto& field, a<FootprintGpu> auto& gpu) {
  field("device", gpu.device);
  field("name", gpu.name);
  field("load_peak_bytes", gpu.load_peak);
  field("run_peak_bytes", gpu.run_peak);
  field.unless_zero("is_integrated", gpu.is_integrated);
}

void describe(auto& field, a<Footprint> auto& footprint) {
  field("name", footprint.name);
  field("path", footprint.path);
  field("model_fingerprint", footprint.model_fingerprint);
  field("backend", footprint.backend);
  field("backend_version", footprint.backend_version);
  field("input", footprint.input);
  field("host", footprint.host);
  field("runtime_bytes", footprint.runtime);
  field("loaded_bytes", footprint.loaded);
  field("load_peak_bytes", footprint.load_peak);
  field("run_mean_bytes", footprint.run_mean);
  field("run_peak_bytes", footprint.run_peak);
  field("frames_bytes", footprint.frames);
  field("file_backed_bytes", footprint.file_backed);
  field("charged_peak_bytes", footprint.charged_peak);
  field("gpu", footprint.gpu);
  field("settings", footprint.settings);
  field("measured_at", footprint.measured_at);
}

namespace {

template <class T>
Json write_fields(const T& value, int schema_version) {
  return object_of([&](FieldWriter& field) {
    field("schema_version", schema_version);
    describe(field, value);
  });
}

// Figures that follow from others, for readers that would have to know how. They are not read back.
void add_derived_figures(const BenchResult& result, Json& document) {
  const auto set_percent = [](Json& object, const char* key, const std::optional<double>& share) {
    if (share) object[key] = std::round(10'000 * *share) / 100;
  };
  for (std::size_t i = 0; i < result.models.size(); ++i) {
    const ModelResult& model = result.models[i];
    Json& entry = document["models"][i];
    if (const auto peak = limit_peak(model.memory, result.limit))
      entry["memory"]["limit_peak_bytes"] = peak->count;
    if (const auto own = own_memory_of_runtime(model.memory))
      entry["memory"]["runtime_own_bytes"] = own->count;
    set_percent(entry["memory"], "board_percent", share_of_board(peak_of(model), result.host));
    for (std::size_t k = 0; k < model.gpu_memory.size(); ++k)
      set_percent(entry["gpu_memory"][k], "peak_percent", share_of_gpu(model.gpu_memory[k]));
  }
  if (result.parallel)
    set_percent(document["parallel"], "joint_peak_board_percent",
                share_of_board(result.parallel->joint_peak, result.host));
  if (result.pipeline)
    set_percent(document["pipeline"]["memory"], "board_percent",
                share_of_board(result.pipeline->peak, result.host));
  if (result.pool)
    set_percent(document["pool"]["memory"], "board_percent", share_of_board(result.pool->peak, result.host));
  if (result.pipeline)
    if (const auto peak = limit_peak(result.pipeline->memory, result.limit))
      document["pipeline"]["memory"]["limit_peak_bytes"] = peak->count;
  if (result.pool)
    if (const auto peak = limit_peak(result.pool->memory, result.limit))
      document["pool"]["memory"]["limit_peak_bytes"] = peak->count;
  for (std::size_t i = 0; i < result.system.size(); ++i)
    if (const auto total = total_of(result.system[i])) document["system"][i]["total"] = *total;
}

Status check_version(const Json& document, std::string_view name, int known) {
  const auto version = get_integer(document, "schema_version");
  if (!version)
    return input_error(fmt::format("{} is not usable", name), "/schema_version is not a whole number",
                       "use a file that headroom bench wrote");
  if (*version > known)
    return input_error(fmt::format("{} is not usable", name),
                       fmt::format("/schema_version is {}, but this Headroom supports {}", *version, known),
                       kFixOfNewerReport);
  return {};
}

template <class T>
Result<T> read_fields(const Json& document, std::string_view name) {
  T value;
  std::string problem;
  if (document.is_object()) {
    const Place root;
    FieldReader reader(document, root, problem);
    describe(reader, value);
  } else {
    problem = "the document is not an object";
  }
  if (!problem.empty()) return input_error(fmt::format("{} is not usable", name), problem);
  return value;
}

}  // namespace

Json to_json(const BenchResult& result) {
  Json document = write_fields(result, kReportSchemaVersion);
  add_derived_figures(result, document);
  return document;
}

std::string report_text(const BenchResult& result, bool is_indented) {
  const Json document = to_json(result);
  return is_indented ? to_text(document) : to_line(document) + "\n";
}

Json to_json(const Footprint& footprint) { return write_fields(footprint, kFootprintSchemaVersion); }

Json to_json(const NodeMemory& node) { return fields_of(node); }
Json to_json(const HostInfo& host) { return fields_of(host); }

Result<HostInfo> host_info_from_json(const Json& document) {
  return read_fields<HostInfo>(document, "the host information");
}

Json to_json(const LayerMemory& layers) { return fields_of(layers); }

Result<BenchResult> bench_result_from_json(const Json& document, std::string_view name) {
  if (auto usable = check_version(document, name, kReportSchemaVersion); !usable)
    return forward_error(usable);
  return read_fields<BenchResult>(document, name);
}

Result<LayerMemory> layer_memory_from_json(const Json& document) {
  return read_fields<LayerMemory>(document, "the layer memory");
}

Result<Footprint> footprint_from_json(const Json& document, std::string_view name) {
  if (auto usable = check_version(document, name, kFootprintSchemaVersion); !usable)
    return forward_error(usable);
  return read_fields<Footprint>(document, name);
}

Result<BenchResult> read_report(std::string_view text, std::string_view name) {
  const auto document = parse_json(text, name);
  if (!document) {
    Error error = document.error();
    error.fix =
        "copy the file again if it was cut off, or name a run's folder, its report.json or a recording "
        "(.hrec)";
    return tl::unexpected(std::move(error));
  }
  auto result = bench_result_from_json(*document, name);
  if (!result && result.error().fix.empty())
    result.error().fix = "copy the file again, or measure again: it was edited, or another program wrote it";
  return result;
}

// Samples of the machine.

void describe(auto& field, a<GpuProcess> auto& process) {
  field("pid", process.pid);
  field("used_bytes", process.used);
  field("gpu_instance", process.gpu_instance);
  field("compute_instance", process.compute_instance);
}

void describe(auto& field, a<MigInstance> auto& instance) {
  field("index", instance.index);
  field.unless_zero("name", instance.name);
  field.unless_zero("uuid", instance.uuid);
  field("gpu_instance", instance.gpu_instance);
  field("compute_instance", instance.compute_instance);
  field("memory_total_bytes", instance.memory_total);
  field("memory_used_bytes", instance.memory_used);
  field("memory_free_bytes", instance.memory_free);
  field("memory_reserved_bytes", instance.memory_reserved);
}

void describe(auto& field, a<GpuSample> auto& gpu) {
  field("index", gpu.index);
  field.unless_zero("name", gpu.name);
  field.unless_zero("uuid", gpu.uuid);
  field.unless_zero("pci_bus_id", gpu.pci_bus_id);
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

void describe(auto& field, a<CpuCore> auto& core) {
  field("online", core.online);
  field("percent", core.percent);
  field("clock_hz", core.clock_hz);
}

void describe(auto& field, a<EngineReading> auto& engine) {
  field("name", engine.name);
  field("on", engine.on);
  field("percent", engine.percent);
  field("clock_hz", engine.clock_hz);
}

void describe(auto& field, a<CgroupMemory> auto& group) {
  field("current_bytes", group.current);
  field("peak_bytes", group.peak);
  field("limit_bytes", group.limit);
  field("high_bytes", group.high);
  field("high_events", group.high_events);
  field("anonymous_bytes", group.anonymous);
  field("file_backed_bytes", group.file_backed);
  field("swapped_bytes", group.swapped);
  field("oom_kills", group.oom_kills);
}

void describe(auto& field, a<ProcessSample> auto& process) {
  field("pid", process.pid);
  field("parent", process.parent);
  field("name", process.name);
  field.unless_zero("user", process.user);
  field("cpu_percent", process.cpu_percent);
  field("rss_bytes", process.rss);
  field("pss_bytes", process.pss);
  field("swapped_bytes", process.swapped);
  field("gpu_bytes", process.gpu);
  field("oom_score", process.oom_score);
  field("oom_score_adj", process.oom_score_adj);
  field("threads", process.threads);
  field("descriptors", process.descriptors);
}

template <>
inline constexpr KernelEventKind kLast<KernelEventKind> = KernelEventKind::gpu_error;

void describe(auto& field, a<KernelEvent> auto& event) {
  field("kind", event.kind);
  field("pid", event.pid);
  field("process", event.process);
  field("text", event.text);
}

void describe(auto& field, a<PoolSample> auto& pool) {
  field("name", pool.name);
  field("pid", pool.pid);
  field("device", pool.device);
  field("budget_bytes", pool.budget);
  field("used_bytes", pool.used);
  field("resident_bytes", pool.resident);
  field("loading_bytes", pool.loading);
  field("unaccounted_bytes", pool.unaccounted);
  field("stuck_bytes", pool.stuck);
  field("measured_bytes", pool.measured);
  field("requests", pool.requests);
  field("hits", pool.hits);
  field("waits", pool.waits);
  field("refusals", pool.refusals);
  field("loads", pool.loads);
  field("load_failures", pool.load_failures);
  field("evictions", pool.evictions);
  field("load_ns", pool.load_time);
  field("wait_ns", pool.wait_time);
}

void describe(auto& field, a<SystemSample> auto& sample) {
  field.unless_zero("clock_text", sample.clock_text);
  field("cpu_percent", sample.cpu_percent);
  field("gpu_percent", sample.gpu_percent);
  field("ram_total_bytes", sample.ram_total);
  field("ram_free_bytes", sample.ram_free);
  field("ram_available_bytes", sample.ram_available);
  field("ram_cached_bytes", sample.ram_cached);
  field("ram_shared_bytes", sample.ram_shared);
  field("ram_used_bytes", sample.ram_used);
  field("ram_buffers_bytes", sample.ram_buffers);
  field("ram_anonymous_bytes", sample.ram_anonymous);
  field("ram_mapped_bytes", sample.ram_mapped);
  field("ram_dirty_bytes", sample.ram_dirty);
  field("slab_reclaimable_bytes", sample.slab_reclaimable);
  field("slab_unreclaimable_bytes", sample.slab_unreclaimable);
  field("kernel_stacks_bytes", sample.kernel_stacks);
  field("page_tables_bytes", sample.page_tables);
  field("cma_total_bytes", sample.cma_total);
  field("cma_free_bytes", sample.cma_free);
  field("huge_pages_total_bytes", sample.huge_pages_total);
  field("huge_pages_free_bytes", sample.huge_pages_free);
  field("swap_total_bytes", sample.swap_total);
  field("swap_used_bytes", sample.swap_used);
  field("swap_cached_bytes", sample.swap_cached);
  field("nvmap_used_bytes", sample.nvmap_used);
  field("nvmap_free_bytes", sample.nvmap_free);
  field("largest_free_block_bytes", sample.largest_free_block);
  field("largest_free_blocks", sample.largest_free_blocks);
  field("zram_original_bytes", sample.zram_original);
  field("zram_compressed_bytes", sample.zram_compressed);
  field("zram_used_bytes", sample.zram_used);
  field("cgroup", sample.cgroup);
  field("psi_some_percent", sample.psi_some_avg10);
  field("psi_full_percent", sample.psi_full_avg10);
  field("psi_some_stalled_ns", sample.psi_some_stalled);
  field("psi_full_stalled_ns", sample.psi_full_stalled);
  field("pages_swapped_in", sample.pages_swapped_in);
  field("pages_swapped_out", sample.pages_swapped_out);
  field("refaults", sample.refaults);
  field("oom_kills", sample.oom_kills);
  field("allocation_stalls", sample.allocation_stalls);
  field("compaction_stalls", sample.compaction_stalls);
  field("compaction_failures", sample.compaction_failures);
  field("major_faults", sample.major_faults);
  field("open_files", sample.open_files);
  field.unless_zero("cores", sample.cores);
  field.readings("temperature_celsius", sample.temperatures_celsius);
  field.readings("temperature_peak_celsius", sample.temperature_peaks_celsius);
  field.readings("power_watts", sample.power_watts);
  field.readings("power_average_watts", sample.power_average_watts);
  field.readings("power_peak_watts", sample.power_peak_watts);
  field.readings("clock_hz", sample.clocks_hz);
  field.unless_zero("engines", sample.engines);
  field("emc_percent", sample.emc_percent);
  field.readings("fan_rpm", sample.fans_rpm);
  field.readings("fan_percent", sample.fans_percent);
  field.unless_zero("power_mode", sample.power_mode);
  field("throttled", sample.throttled);
  field.unless_zero("gpus", sample.gpus);
  field.unless_zero("process_table", sample.processes);
  field.unless_zero("pools", sample.pools);
  field.unless_zero("kernel_events", sample.kernel_events);
  field.readings("other", sample.other);
  field.unless_zero("unknown_tokens", sample.unknown_tokens);
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

// A sample with its times, which a line of metrics.jsonl has in its own way.
void describe_with_times(auto& field, auto& sample) {
  field("time_ns", sample.time);
  field("unix_time_ns", sample.unix_time);
  describe(field, sample);
}

Json to_json(const MetricsLine& line) { return fields_of(line); }

Json to_json(const SystemSample& sample) {
  return object_of([&](FieldWriter& field) { describe_with_times(field, sample); });
}

void append_json(std::string& text, const SystemSample& sample) {
  text += '{';
  FieldWriter field(text);
  describe_with_times(field, sample);
  text += '}';
}

// Logs come from anywhere, and what is done with their figures adds and multiplies them. So figures are
// refused that no machine has: 64 PiB and more of bytes, counts, hertz and all else, 36 years of time since
// the start, a wall clock beyond 2116.
static void expect_real_figures(const Json& value, const Place& place, std::string& problem) {
  if (value.is_object())
    for (const auto& [key, member] : value.items()) expect_real_figures(member, Place{&place, key}, problem);
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i)
      expect_real_figures(value[i], Place{&place, {}, i}, problem);
  if (!value.is_number() || !problem.empty()) return;
  const bool is_time = place.key.ends_with("_ns");
  const int bits = place.key == "unix_time_ns" ? 62 : is_time ? 60 : 56;
  const double most = std::ldexp(1.0, bits), number = value.get<double>();
  if (number < most && number > (is_time ? -1 : -most)) return;
  problem = fmt::format("{} is too large for any machine", place.pointer());
}

// `describe_fields(reader, value)` reads. Checks what it read.
template <class T, class Describe>
Result<T> read_figures(const Json& document, std::string_view what, Describe describe_fields) {
  T value;
  std::string problem;
  const Place root;
  FieldReader reader(document, root, problem);
  describe_fields(reader, value);
  if (problem.empty()) expect_real_figures(document, root, problem);
  if (!document.is_object()) problem = "it is not an object";
  if (problem.empty() && !get_integer(document, "time_ns")) problem = "it has no time_ns";
  if (!problem.empty()) return input_error(fmt::format("{} is not usable", what), problem);
  return value;
}

Result<SystemSample> system_sample_from_json(const Json& document) {
  return read_figures<SystemSample>(document, "the sample",
                                    [](auto& field, auto& sample) { describe_with_times(field, sample); });
}

Result<MetricsLine> metrics_line_from_json(const Json& document) {
  return read_figures<MetricsLine>(document, "the line of metrics.jsonl",
                                   [](auto& field, auto& line) { describe(field, line); });
}

Status read_metrics(std::istream& jsonl, const std::function<void(MetricsLine)>& each) {
  constexpr std::size_t kLongestLine = 1 << 20;
  std::string buffer(kLongestLine, '\0');
  for (std::int64_t number = 1; jsonl; ++number) {
    jsonl.getline(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const auto not_usable = [&](std::string_view why) {
      return input_error("metrics.jsonl is not usable", fmt::format("line {}: {}", number, why));
    };
    if (jsonl.fail() && !jsonl.eof()) return not_usable("it is longer than 1 MiB");
    const bool is_cut = jsonl.eof();  // or whole, and only its end is missing
    const std::string_view text = trim(std::string_view(buffer.c_str()));
    if (text.empty()) continue;
    const auto document = parse_json(text, "the line");
    auto line = document ? metrics_line_from_json(*document) : tl::unexpected(document.error());
    if (line)
      each(std::move(*line));
    else if (!is_cut)
      return not_usable(line.error().why);
  }
  return {};
}

}  // namespace headroom::report
