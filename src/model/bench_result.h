// What a bench run showed. report.json is this structure; docs/report.schema.json describes it. Plain data:
// an absent figure is an empty optional.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "model/bench_options.h"
#include "model/gpu_memory.h"
#include "model/layer_memory.h"
#include "model/limit.h"
#include "model/runtime_settings.h"
#include "model/source.h"

namespace headroom {

enum class ModelStatus { ok, oom, crashed, timeout, failed, skipped };
std::string_view name_of(ModelStatus status);
std::optional<ModelStatus> parse_model_status(std::string_view name);

// Phases of a worker, in order. A worker marks a phase when it is reached, so a model whose last mark is
// runtime_loaded died while it was being loaded.
enum class Phase { start, runtime_loaded, model_loaded, warm, running, unloaded };
std::string_view name_of(Phase phase);
std::optional<Phase> parse_phase(std::string_view name);

// Nearest-rank percentiles (sorted[ceil(p·n) − 1]) and moments of one latency, in nanoseconds.
struct LatencySummary {
  std::int64_t n = 0;
  double mean_ns = 0, sd_ns = 0, cv = 0;  // cv = sd / mean
  Nanoseconds min, p50, p90, p99, max;
  // Upper bounds of the percentile at 99 % confidence (LoadGen early stopping); absent when n is too small
  // (below 64 for P90, below 662 for P99).
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

// Memory by phase. Peaks are the kernel's own high-water marks (VmHWM), reset at each phase; the rest are
// resident bytes at the end of the phase.
struct ModelMemory {
  std::optional<Bytes> start, runtime, loaded, load_peak, run_mean, run_peak;
  std::optional<Bytes> residual;  // resident after model and frames were released
  std::optional<Bytes> frames;    // decoded frames held in the worker, inside the figures above
  std::optional<Bytes>
      cgroup_peak;  // the kernel's account of the worker's control group, page cache included
  std::optional<Bytes> pss_run_peak;  // largest sampled proportional share while running
  std::optional<bool> within_limit;
  std::int64_t violations = 0;  // samples over the limit
  // Largest sampled VmData (private, writable, reserved), where RLIMIT_DATA enforces the limit.
  std::optional<Bytes> data_peak = std::nullopt;
  // Largest sampled proportional share since the process began, its load included. A process of --parallel
  // shares pages with the others, one alone does not.
  std::optional<Bytes> pss_peak = std::nullopt;
  // Largest sampled part of the resident bytes that are pages of files: code, which processes share.
  std::optional<Bytes> file_backed_peak = std::nullopt;
  // The process had its memory at the addresses of every run, so the heap's layout is that of every run, too.
  // Absent in reports of earlier versions: random.
  std::optional<bool> fixed_addresses = std::nullopt;
  friend bool operator==(const ModelMemory&, const ModelMemory&) = default;
};

// The peak in the account that the limit is held against: the control group's own where a group enforces it,
// VmData where RLIMIT_DATA does, else the larger of load peak and run peak (resident). Absent without a
// limit, and where the kernel keeps no peak of a group: another account says nothing about that limit.
std::optional<Bytes> limit_peak(const ModelMemory& memory, const std::optional<Limit>& limit);

// What stays after the state was cleaned between objects and videos.
struct CleanupPoint {
  std::string level;  // "object" or "video"
  std::string name;
  Bytes resident;
  friend bool operator==(const CleanupPoint&, const CleanupPoint&) = default;
};

// A point of the memory-over-time series kept in the report for the chart (the full series is metrics.jsonl).
struct MemoryPoint {
  Nanoseconds time;  // since the worker's start
  Bytes resident;
  friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

struct PhaseMark {
  Phase phase;
  Nanoseconds time;                                 // since the worker's start
  std::optional<Bytes> file_backed = std::nullopt;  // resident pages of files at its end; in no report
  friend bool operator==(const PhaseMark&, const PhaseMark&) = default;
};

// A finding of --tune: one combination of settings, tried in a child of its own under the limit.
struct TuneTrial {
  RuntimeSettings settings;
  ModelStatus status = ModelStatus::ok;
  std::string error;
  std::optional<Nanoseconds> p50;
  std::optional<Bytes> peak;
  std::optional<bool> within_limit = std::nullopt;  // a limit that is only watched refuses nothing
  std::optional<Bytes> gpu_peak = std::nullopt;  // of the device's memory, by the ledger; absent on the CPU
  // What the smallest setting is smallest in: the device's memory where it runs on one.
  std::optional<Bytes> counted_peak() const { return gpu_peak ? gpu_peak : peak; }
  friend bool operator==(const TuneTrial&, const TuneTrial&) = default;
};

// A model whose frames were measured in turns with those of another run (--in-step): a frame of the one and a
// frame of the other.
struct InStep {
  std::string id;           // of the two runs: the same in both, and in no others
  std::int64_t frames = 0;  // the first so many of the run; the other run may have had fewer
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
  // Of the inference by the device's own clock; absent on the CPU.
  std::optional<LatencySummary> device_time;
  std::optional<Nanoseconds> runtime_load_time, model_load_time, warmup_time;
  std::optional<bool> runtime_telemetry =
      {};  // whether the runtime was left to collect usage data, where it does
  std::optional<CountSummary> detections;
  std::int64_t frames = 0;
  std::int64_t skipped_frames = 0;  // could be decoded in the scan and not in this run
  ModelMemory memory;
  std::vector<GpuMemory> gpu_memory;       // by device; empty on the CPU
  std::optional<NodePlacement> placement;  // absent on the CPU, and where the runtime does not say
  std::optional<Bytes> file_size;          // of the model file
  std::optional<double> cpu_percent;       // of one core, while running
  std::vector<CleanupPoint> cleanups;
  std::vector<MemoryPoint> memory_series;
  std::vector<PhaseMark> phases;
  std::optional<double> confidence, iou;  // as its task used them; absent where it uses none
  RuntimeSettings settings;
  std::vector<TuneTrial> trials;                     // empty without --tune
  std::optional<RuntimeSettings> smallest_settings;  // within 5 % of the fastest
  std::optional<LayerMemory> layers;                 // --layers
  std::optional<InStep> in_step = {};                // --in-step
  std::vector<std::string> warnings;
  std::vector<std::string> annotated_images;  // paths inside the run folder
  friend bool operator==(const ModelResult&, const ModelResult&) = default;
};

// --parallel: all models at once under one common limit, beside the same models alone.
struct ParallelResult {
  std::vector<ModelResult> together;
  std::optional<Bytes> sum_of_peaks;  // of the models alone
  std::optional<Bytes> joint_peak;    // of all at once, as sampled (PSS) or by the kernel (control group)
  std::string joint_peak_source;      // "cgroup_v1", "cgroup_v2", "pss_samples"
  // Beside "pss_samples": every page that the models had in memory once, as sampled, with those that the
  // bench's own processes have, too, and whose shares fall to those in part.
  std::optional<Bytes> joint_resident_peak;
  // The most that the models' shares of pages (PSS), read one right after the other, came to while they ran:
  // whoever the kernel charges with pages that they share, it has each once. Sampled, so a lower bound.
  std::optional<Bytes> joint_share_peak;
  std::optional<bool> within_limit;  // absent where the run ended before it could be known
  // The joint peak was sampled, or not every model lived to the end: what all take at once is at least that.
  bool joint_peak_is_lower_bound = false;
  std::int64_t frames_held = 0;  // most decoded frames in memory at once, of all models
  std::vector<JointGpuMemory> gpu_memory;
  friend bool operator==(const ParallelResult&, const ParallelResult&) = default;
};

// --pipeline: all models in one process, loaded one after another, then frame by frame through all.
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
  ModelMemory memory;            // of the process; load peak, run peak and the account of the limit
  std::optional<Phase> died_in;  // where it did not come through
  std::int64_t frames = 0;
  std::int64_t skipped_frames = 0;  // could be decoded in the scan and not in this run
  std::int64_t frames_held = 0;     // most decoded frames in memory at once
  friend bool operator==(const PipelineResult&, const PipelineResult&) = default;
};

// A model of a run with --pool: requests are made by frames.
struct PooledModel {
  std::string name;
  std::int64_t every = 1;                   // of every Nth frame
  bool isolated = false;                    // in a process of its own
  std::int64_t requests = 0, hits = 0;      // a hit found it loaded
  std::int64_t loads = 0, unloads = 0;      // freed for any reason, but at the end
  std::int64_t evictions = 0;               // of these, given up for others
  std::int64_t refusals = 0, failures = 0;  // not to be had; had, and failed to run
  std::string error;                        // of the last refusal or failure
  std::optional<Bytes> charge;              // by the pool's books, when it was loaded last
  std::optional<LatencySummary> load;       // warming included
  std::optional<LatencySummary> wait;       // of requests that were no hit: giving up others, and the load
  std::optional<LatencySummary> inference;
  friend bool operator==(const PooledModel&, const PooledModel&) = default;
};

// All models in one process, whose memory a pool keeps inside a budget (docs/model-pool.md).
struct PoolResult {
  ModelStatus status = ModelStatus::skipped;  // failed, too, where a model was never to be had
  std::string error;
  std::optional<Phase> died_in;
  Bytes budget;
  std::int64_t threads = 1;          // that ask for models; one asks for one after the other
  std::optional<Bytes> baseline;     // of the process before the first load: runtimes and frames
  std::optional<Bytes> all_at_once;  // baseline and what every model was charged
  std::vector<PooledModel> models;
  std::optional<LatencySummary> frame;  // one frame through all models that it asks for, loads included
  std::optional<double> fps;            // 1 / mean of that
  std::optional<Nanoseconds> load_time, reload_time;  // of all loads; of models that had been loaded before
  std::optional<Bytes> books_peak;                    // most that the books had
  std::optional<Bytes> peak;                          // most that was sampled of what the budget is of
  std::int64_t samples = 0, samples_over = 0;         // over the budget
  ModelMemory memory;                                 // resident, and the account of the limit
  std::vector<GpuMemory> gpu_memory;
  std::int64_t frames = 0;
  std::int64_t skipped_frames = 0;
  std::int64_t frames_held = 0;
  friend bool operator==(const PoolResult&, const PoolResult&) = default;
};

// A GPU of the host, by what does not change: `uuid` and `pci_bus_id` tell it from the others.
struct HostMigInstance {
  std::string name, uuid;
  std::optional<Bytes> memory_total;
  friend bool operator==(const HostMigInstance&, const HostMigInstance&) = default;
};
struct HostGpu {
  std::int64_t index = 0;  // as the driver counts (nvidia-smi), not as CUDA does
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
  std::vector<HostGpu> gpus;  // of NVIDIA's driver; empty without NVML
  // When the run began; empty where the system does not say: nvpmodel's ("MODE_15W"), and of the first core.
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
  std::string started_at;  // RFC 3339; the first versions wrote no colon into the zone
  bool complete = false;   // false: interrupted, or still running
  std::string command;     // as typed
  HostInfo host;
  std::optional<SourceMetadata> source;
  std::int64_t frames_held_peak = 0;  // most decoded frames in memory at once
  std::optional<Limit> limit;
  std::optional<Limit> gpu_limit;  // of GPU memory: the smallest of the devices' limits
  int image_size = 0;
  double confidence = 0, iou = 0;  // of all models that have none of their own
  // The merged configuration. Of a report that is read back without its models and its source, which are told
  // elsewhere; absent from reports of earlier versions.
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
