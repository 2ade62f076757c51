// The result of a bench run. report.json is this structure; docs/report.schema.json describes it. Plain data:
// a missing figure is an empty optional.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "types/bench_options.h"
#include "types/enum_names.h"
#include "types/limit.h"
#include "types/runtime_settings.h"
#include "types/source.h"
#include "types/vos_run.h"

namespace headroom {

// GPU memory of a process, by phase.
struct GpuMemory {
  std::string device;      // "cuda:0"
  std::string name, uuid;  // "NVIDIA H200", "GPU-…"
  std::optional<Bytes> total;
  std::optional<bool> is_integrated;  // its memory is host memory: never add these figures to resident bytes

  // By the ledger of the preload library: requested bytes, plus what pools and graphs keep. Peaks are exact;
  // `run_peak` covers warm-up and run.
  std::optional<Bytes> runtime, loaded, load_peak, running, run_peak, residual;
  std::optional<Bytes> pinned_host;  // host memory, at the end of the run

  // By the driver (NVML) at the end of the same phases; includes the context and the modules.
  std::optional<Bytes> process_runtime, process_loaded, process_running, process_residual;

  // The limit on the ledger's figures; absent without a limit.
  std::optional<Bytes> limit;
  std::optional<bool> within_limit;
  std::int64_t refused = 0;  // number of refused requests
  std::optional<Bytes> refused_bytes;
  friend bool operator==(const GpuMemory&, const GpuMemory&) = default;
};

// All models at once on one device, from the account that they share.
struct JointGpuMemory {
  std::string device;
  std::optional<Bytes> joint_peak, sum_of_peaks;  // the sum is over the models alone
  std::optional<Bytes> limit;
  bool is_over_limit() const { return limit && joint_peak && *joint_peak > *limit; }
  friend bool operator==(const JointGpuMemory&, const JointGpuMemory&) = default;
};

// Where the nodes of a model's graph ran.
struct NodePlacement {
  std::int64_t on_device = 0, on_cpu = 0;
  std::string on_cpu_kinds;  // "Shape x3, Gather"
  friend bool operator==(const NodePlacement&, const NodePlacement&) = default;
};

// The contents of a model's heap, by kind and by graph node. `headroom bench --layers` measures them, and
// `headroom report` finds them in a recording. docs/trace-report.md defines the kinds.
enum class MemoryKind {
  weights,         // parameters of the nodes, by the runtime's profile
  graph,           // other memory from loading: graph, kernels, prepacked weights
  tensors,         // in the runtime's arena, at its peak use in the profiled runs
  arena_rounding,  // rounding of those tensors
  arena_unused,    // held by the arena, but unused at that time
  arena_later,     // what the arena allocated after the profiled runs; its use is unknown
  workspace,       // allocated during runs, outside the arena
  run_later,       // allocated during runs after the profiled ones; in the arena or outside, unknown which
  run,             // allocated during runs, if the runtime's profile does not report its arena
  tracing,         // the runtime's profiler, which only tracing enables
  module,          // outside the model: `name` is the program or library that allocated it
  unnamed,         // unknown
};
constexpr std::string_view name_of(MemoryKind kind) {
  return name_in({"weights", "graph", "tensors", "arena_rounding", "arena_unused", "arena_later", "workspace",
                  "run_later", "run", "tracing", "module", "unnamed"},
                 kind);
}

struct MemoryShare {
  MemoryKind kind = MemoryKind::unnamed;
  std::string name;  // for a module
  Bytes bytes;
  friend bool operator==(const MemoryShare&, const MemoryShare&) = default;
};

// One node of the graph, over its profiled runs.
struct NodeMemory {
  std::string name, operation, provider;
  std::int64_t runs = 0;
  Nanoseconds duration;                                  // of all its runs
  std::optional<Bytes> output, activations, parameters;  // of one run, from the runtime's profile
  std::optional<Bytes> in_use;                           // largest arena use after this node
  friend bool operator==(const NodeMemory&, const NodeMemory&) = default;
};

// A separate, traced run of one model, in addition to the measured run.
struct LayerMemory {
  std::string recording;    // path inside the run folder
  std::int64_t frames = 0;  // frames in the traced run
  Bytes peak;               // of the worker's heap
  // All allocations that were live at that peak, largest first. The sum is the peak.
  std::vector<MemoryShare> shares;
  std::string peak_node;          // the node after which arena use was largest
  std::vector<NodeMemory> nodes;  // in the order of their first run
  friend bool operator==(const LayerMemory&, const LayerMemory&) = default;
};

// One frame through one model.
struct FrameTimes {
  Nanoseconds decode, preprocess, inference, postprocess;
  std::int64_t findings = 0;
  std::optional<Nanoseconds> device{};  // inference time by the device's clock

  Nanoseconds end_to_end() const { return decode + preprocess + inference + postprocess; }
  friend bool operator==(const FrameTimes&, const FrameTimes&) = default;
};

enum class ModelStatus { ok, oom, crashed, timeout, failed, skipped };
constexpr std::string_view name_of(ModelStatus status) {
  return name_in({"ok", "oom", "crashed", "timeout", "failed", "skipped"}, status);
}

// Phases of a worker, in order. A worker marks a phase when the phase is complete, `running` after the last
// frame. So a model whose last mark is runtime_loaded failed while it was loaded.
enum class Phase { start, runtime_loaded, model_loaded, warm, running, unloaded };
constexpr std::string_view name_of(Phase phase) {
  return name_in({"start", "runtime_loaded", "model_loaded", "warm", "running", "unloaded"}, phase);
}

// Nearest-rank percentiles (sorted[ceil(p·n) − 1]) and moments of one latency, in nanoseconds.
struct LatencySummary {
  std::int64_t n = 0;
  double mean_ns = 0, sd_ns = 0, cv = 0;  // cv = sd / mean
  Nanoseconds min, p50, p90, p99, max;
  // Upper bounds of the percentile at 99 % confidence (LoadGen early stopping). Absent if n is too small:
  // below 64 for P90, below 662 for P99.
  std::optional<Nanoseconds> p90_bound, p99_bound;
  // Counts per logarithmic bucket, for the distribution chart: bucket i covers
  // [min · r^i, min · r^(i+1)) with r = (max/min)^(1/buckets).
  std::vector<std::int64_t> histogram;
  friend bool operator==(const LatencySummary&, const LatencySummary&) = default;
};

struct CountSummary {
  std::int64_t n = 0;
  double mean = 0;
  std::int64_t min = 0, max = 0;
  friend bool operator==(const CountSummary&, const CountSummary&) = default;
};

// Memory by phase. Peaks are the kernel's high-water marks (VmHWM), reset at each phase. run_mean is the mean
// of the samples while running. The other figures are resident bytes at the end of the phase.
struct ModelMemory {
  std::optional<Bytes> start, runtime, loaded, load_peak, run_mean, run_peak;
  std::optional<Bytes> residual;      // resident after the model and the frames are freed
  std::optional<Bytes> frames;        // decoded frames in the worker; included in the figures above
  std::optional<Bytes> cgroup_peak;   // peak of the worker's control group, page cache included
  std::optional<Bytes> pss_run_peak;  // largest sampled proportional set size (PSS) while running
  std::optional<bool> within_limit;
  std::int64_t violations = 0;  // samples above the limit
  // Largest sampled VmData (private, writable, reserved), if RLIMIT_DATA enforces the limit.
  std::optional<Bytes> data_peak = std::nullopt;
  // Largest sampled PSS since the process started, loading included. A process of --parallel shares pages
  // with the others; a process that runs alone does not.
  std::optional<Bytes> pss_peak = std::nullopt;
  // Largest sampled amount of resident file pages: mostly code, which processes share.
  std::optional<Bytes> file_backed_peak = std::nullopt;
  // Address-space randomization was off, so the heap layout is the same in every run. Absent in reports of
  // earlier versions, which means random addresses.
  std::optional<bool> fixed_addresses = std::nullopt;
  friend bool operator==(const ModelMemory&, const ModelMemory&) = default;
};

// The peak of the figure that the limit applies to. That is the control group's peak, VmData under
// RLIMIT_DATA, or else the larger of load peak and run peak (resident). Absent without a limit. Also absent
// if the kernel records no peak for the group: no other figure can be compared with that limit.
std::optional<Bytes> limit_peak(const ModelMemory& memory, const std::optional<Limit>& limit);

// Memory that remains after the state was cleaned between objects and videos.
struct CleanupPoint {
  std::string level;  // "object" or "video"
  std::string name;
  Bytes resident;
  friend bool operator==(const CleanupPoint&, const CleanupPoint&) = default;
};

// A point of the memory chart in the report (metrics.jsonl has the full series).
struct MemoryPoint {
  Nanoseconds time;  // since the worker's start
  Bytes resident;
  friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

struct PhaseMark {
  Phase phase;
  Nanoseconds time;  // since the worker's start
  // Resident file pages at the end of the phase; not in the report.
  std::optional<Bytes> file_backed = std::nullopt;
  friend bool operator==(const PhaseMark&, const PhaseMark&) = default;
};

// A trial of --tune: one combination of settings, run in a child process under the limit.
struct TuneTrial {
  RuntimeSettings settings;
  ModelStatus status = ModelStatus::ok;
  std::string error;
  std::optional<Nanoseconds> p50;
  std::optional<Bytes> peak;
  std::optional<bool> within_limit = std::nullopt;  // absent: the watchdog only observes this limit
  std::optional<Bytes> gpu_peak = std::nullopt;     // peak device memory by the ledger; absent on the CPU
  // The peak that decides which setting is smallest: device memory on a GPU, else process memory.
  std::optional<Bytes> counted_peak() const { return gpu_peak ? gpu_peak : peak; }
  friend bool operator==(const TuneTrial&, const TuneTrial&) = default;
};

// Frames of this model alternated with frames of another run (--in-step).
struct InStep {
  std::string id;  // identifies the pair: the same in both runs, and in no other
  // The number of frames that alternated, from the first. The other run may have had fewer frames.
  std::int64_t frames = 0;
  bool one_processor = false;
  friend bool operator==(const InStep&, const InStep&) = default;
};

struct ModelResult {
  std::string name, path, backend, backend_version, task;
  std::string input;  // "float32[1,3,640,640]"
  ModelStatus status = ModelStatus::skipped;
  std::string error;                   // one sentence, empty if ok
  std::optional<Phase> died_in;        // for oom, crashed, timeout, failed
  std::optional<double> fps;           // inference alone: 1 / mean inference latency
  std::optional<double> pipeline_fps;  // frames / (sum of end-to-end latencies)
  std::optional<LatencySummary> decode, preprocess, inference, postprocess, end_to_end;
  // Inference time by the device's clock; absent on the CPU.
  std::optional<LatencySummary> device_time;
  std::optional<Nanoseconds> runtime_load_time, model_load_time, warmup_time;
  // Whether the runtime was allowed to collect usage data; absent if it has no such setting.
  std::optional<bool> runtime_telemetry = {};
  std::optional<CountSummary> detections;
  std::int64_t frames = 0;
  std::int64_t skipped_frames = 0;  // decoded in the setup scan, but not in this run
  ModelMemory memory;
  std::vector<GpuMemory> gpu_memory;       // for each device; empty on the CPU
  std::optional<NodePlacement> placement;  // absent on the CPU, and if the runtime does not report it
  std::optional<Bytes> file_size;          // of the model file
  std::optional<double> cpu_percent;       // in percent of one core, while running
  std::vector<CleanupPoint> cleanups;
  std::vector<MemoryPoint> memory_series;
  std::vector<PhaseMark> phases;
  std::optional<double> confidence, iou;  // as the task used them; absent if it uses none
  RuntimeSettings settings;
  std::vector<TuneTrial> trials;                     // empty without --tune
  std::optional<RuntimeSettings> smallest_settings;  // within 5 % of the fastest
  std::optional<LayerMemory> layers;                 // --layers
  std::optional<InStep> in_step = {};                // --in-step
  std::optional<VosResult> vos = {};                 // --task vos
  std::vector<std::string> warnings;
  std::vector<std::string> annotated_images;  // paths inside the run folder
  friend bool operator==(const ModelResult&, const ModelResult&) = default;
};

// --parallel: all models at once under one common limit, compared with each model alone.
struct ParallelResult {
  std::vector<ModelResult> together;
  std::optional<Bytes> sum_of_peaks;  // of the models alone
  std::optional<Bytes> joint_peak;    // of all models at once: sampled (PSS), or the control group's
  std::string joint_peak_source;      // "cgroup_v1", "cgroup_v2", "pss_samples"
  // With "pss_samples": sampled resident pages of all models, each page counted once. Includes pages that the
  // bench's own processes share; PSS assigns part of those to the bench.
  std::optional<Bytes> joint_resident_peak;
  // Largest sum of the models' PSS, sampled one right after the other. Each shared page counts once,
  // whichever process the kernel charges for it. Sampled, so a lower bound.
  std::optional<Bytes> joint_share_peak;
  std::optional<bool> within_limit;  // absent if the run ended before the result was known
  // True if the joint peak was sampled, or if a model died before the end: the real peak may be higher.
  bool joint_peak_is_lower_bound = false;
  std::int64_t frames_held = 0;  // largest number of decoded frames in memory, over all models
  std::vector<JointGpuMemory> gpu_memory;
  friend bool operator==(const ParallelResult&, const ParallelResult&) = default;
};

// --pipeline: all models in one process, loaded one after another. Each frame goes through all models.
struct PipelineModel {
  std::string name;
  std::optional<Nanoseconds> load_time;
  std::optional<Bytes> memory_increment;
  std::optional<LatencySummary> inference;
  friend bool operator==(const PipelineModel&, const PipelineModel&) = default;
};
struct PipelineResult {
  ModelStatus status = ModelStatus::skipped;
  std::string error;
  std::vector<PipelineModel> models;
  std::optional<LatencySummary> frame;  // one frame through all models
  std::optional<double> fps;
  std::optional<Bytes> runtime, loaded, peak;
  std::vector<GpuMemory> gpu_memory;
  ModelMemory memory;  // of the process: load peak, run peak and the figure that the limit applies to
  std::optional<Phase> died_in;  // the phase in which the process died, if it did
  std::int64_t frames = 0;
  std::int64_t skipped_frames = 0;  // decoded in the setup scan, but not in this run
  std::int64_t frames_held = 0;     // largest number of decoded frames in memory
  friend bool operator==(const PipelineResult&, const PipelineResult&) = default;
};

// A model of a run with --pool. Frames request it.
struct PooledModel {
  std::string name;
  std::int64_t every = 1;                   // the model runs on every Nth frame
  bool isolated = false;                    // in a separate process
  std::int64_t requests = 0, hits = 0;      // hit: the model was already loaded
  std::int64_t loads = 0, unloads = 0;      // unloads for any reason, except at the end
  std::int64_t evictions = 0;               // unloads that made space for other models
  std::int64_t refusals = 0, failures = 0;  // refusals: not loaded; failures: loaded, but inference failed
  std::string error;                        // of the last refusal or failure
  std::optional<Bytes> charge;              // bytes that the pool charged at the last load
  std::optional<LatencySummary> load;       // warm-up included
  std::optional<LatencySummary> wait;       // of requests that were not hits: evictions and the load
  std::optional<LatencySummary> inference;
  friend bool operator==(const PooledModel&, const PooledModel&) = default;
};

// --pool: all models in one process; a pool keeps their memory within a budget (docs/model-pool.md).
struct PoolResult {
  ModelStatus status = ModelStatus::skipped;  // also failed if a model could never be loaded
  std::string error;
  std::optional<Phase> died_in;
  Bytes budget;
  std::int64_t threads = 1;          // threads that request models concurrently
  std::optional<Bytes> baseline;     // of the process before the first load: runtimes and frames
  std::optional<Bytes> all_at_once;  // baseline plus the charges of all models
  std::vector<PooledModel> models;
  std::optional<LatencySummary> frame;  // one frame through all models that it requests, loads included
  std::optional<double> fps;            // 1 / mean of `frame`
  std::optional<Nanoseconds> load_time, reload_time;  // of all loads; of repeated loads
  std::optional<Bytes> books_peak;                    // largest total that the pool charged
  std::optional<Bytes> peak;                          // largest sample of the memory that the budget covers
  std::int64_t samples = 0, samples_over = 0;         // samples over the budget
  ModelMemory memory;  // resident memory, and the figure that the limit applies to
  std::vector<GpuMemory> gpu_memory;
  std::int64_t frames = 0;
  std::int64_t skipped_frames = 0;
  std::int64_t frames_held = 0;
  friend bool operator==(const PoolResult&, const PoolResult&) = default;
};

struct HostMigInstance {
  std::string name, uuid;
  std::optional<Bytes> memory_total;
  friend bool operator==(const HostMigInstance&, const HostMigInstance&) = default;
};
// A GPU of the host. `uuid` and `pci_bus_id` identify it.
struct HostGpu {
  std::int64_t index = 0;  // in the driver's order (nvidia-smi), not CUDA's
  std::string name, uuid, pci_bus_id;
  std::optional<Bytes> memory_total;  // absent on integrated GPUs
  std::optional<bool> mig_enabled;
  std::vector<HostMigInstance> mig_instances;
  friend bool operator==(const HostGpu&, const HostGpu&) = default;
};

struct HostInfo {
  std::string hostname, machine, kernel, os, cpu_model, board;  // board: Jetson's device-tree model, if any
  int cpus = 0;
  Bytes ram_total;
  std::string headroom_version;
  std::string gpu_driver;     // "580.159.04"; empty without NVML
  std::vector<HostGpu> gpus;  // from NVIDIA's driver; empty without NVML
  // At the start of the run: nvpmodel's mode ("MODE_15W") and the first core's governor. Empty if unknown.
  std::string power_mode, cpu_governor;
  friend bool operator==(const HostInfo&, const HostInfo&) = default;
};

// Minimum, mean and maximum of one system metric over the inference phase.
struct MetricSummary {
  std::string name;  // key with unit: "cpu_percent", "ram_used_bytes", "temperature_celsius.cpu-thermal"
  std::int64_t n = 0;
  double min = 0, mean = 0, max = 0;
  friend bool operator==(const MetricSummary&, const MetricSummary&) = default;
};

struct BenchResult {
  std::string run_name;    // "2026-11-21_10-30-00"
  std::string started_at;  // RFC 3339; the first versions wrote the zone without a colon
  bool complete = false;   // false: interrupted, or still running
  std::string command;     // as typed
  HostInfo host;
  std::optional<SourceMetadata> source;
  std::optional<VosSource> vos{};     // --task vos
  std::int64_t frames_held_peak = 0;  // largest number of decoded frames in memory
  std::optional<Limit> limit;
  std::optional<Limit> gpu_limit;  // for GPU memory: the smallest of the devices' limits
  int image_size = 0;
  double confidence = 0, iou = 0;  // for all models without values of their own
  // The merged configuration. When a report is read back, `models` and `source` are empty here: the report
  // has them elsewhere. Absent in reports of earlier versions.
  std::optional<BenchOptions> options;
  Nanoseconds setup_time, inference_time;
  std::vector<ModelResult> models;
  std::optional<ParallelResult> parallel;
  std::optional<PipelineResult> pipeline;
  std::optional<PoolResult> pool;
  std::vector<MetricSummary> system;
  std::vector<std::string> warnings;
  friend bool operator==(const BenchResult&, const BenchResult&) = default;
};

}  // namespace headroom
