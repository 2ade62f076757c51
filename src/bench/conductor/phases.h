// The phases of the measurement: each prepared model runs alone in a fresh process. Then, if requested, all
// models run at the same time (--parallel), in one process (--pipeline, --pool), and under the tracer
// (--layers).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/conductor/bench_state.h"
#include "bench/conductor/measuring_child.h"
#include "bench/conductor/worker_account.h"
#include "bench/prepared_data.h"
#include "limits/memory_limit.h"
#include "types/bench_options.h"
#include "types/bench_result.h"
#include "types/sample.h"

namespace headroom::bench {

// One measured model: its result, and the frames to draw.
struct MeasuredModel {
  ModelResult result;
  std::filesystem::path samples_path;  // annotated_samples.h; absent if there are none
  KeptFrames frames;
  std::int64_t frames_held = 0;
  bool interrupted = false;
};

// With --task vos, where the worker puts the masks that are scored after its end.
std::filesystem::path masks_path(const Run& run, const std::string& model);

Result<MeasuredModel> measure_alone(Run& run, const PreparedModel& model);

// Adds the facts of the setup to a result: of the setup itself, or of the measurement. complete() also adds
// the thresholds that the model used.
void add_setup_facts(ModelResult& result, const PreparedModel& model);
void complete(ModelResult& result, const PreparedModel& model, const BenchOptions& options);
// Adds warnings about a run on a GPU: memory over the limit, refused requests, missing figures, nodes that
// run on the CPU.
void add_gpu_warnings(ModelResult& result);
// The result of the model with this name, or nullptr.
const ModelResult* find_result(const std::vector<ModelResult>& results, const std::string& name);
// Without a control group that counts all models together, PSS measures each model and their total.
bool needs_shares(const Run& run, const limits::MemoryLimit& limit);

// --- The jobs and plans of the workers, and their progress lines.

// The number of frames in memory at the same time, and the bytes of the ring that holds them. At most
// --max-frames-in-mem frames. If that is unset: at most 16 MiB and an eighth of the limit, because the frames
// count in the limit. At least one frame.
struct FrameWindow {
  std::int64_t frames = 1;
  Bytes arena;
};
FrameWindow choose_frame_window(const SourceMetadata& source, const BenchOptions& options);

// A job without models.
WorkerJob job_for(Run& run, WorkerKind kind);
WorkerModel worker_model(Run& run, const PreparedModel& model);
// `sharers` workers run at the same time and share the frames in memory; each gets at least one.
WorkerPlan plan_for(Run& run, const std::string& label, WorkerJob job, bool takes_frames,
                    limits::MemoryLimit* limit, std::int64_t sharers = 1);
// With --task vos: the videos whose estimated peak is above a limit. They are not loaded.
std::vector<VosLeftOut> videos_over_limit(const Run& run, const PreparedModel& model);
// The job to run one model in a separate process.
WorkerJob inference_job(Run& run, const PreparedModel& model);

// Number of models that hold frames when all run at the same time; at least 1.
std::int64_t frame_takers(Run& run);
// Number of frames that one model runs, for the progress bar; 0 if unknown.
std::int64_t frames_expected(Run& run, bool takes_frames);

Tick ticker(Run& run, const std::string& phase, const std::string& label, std::int64_t expected);
Result<std::unique_ptr<limits::MemoryLimit>> limit_for(Run& run, const std::string& label);

// --- --parallel: all models run at the same time under one common limit (parallel_phase.cpp).

// `alone`: the results of each model alone. If the run is interrupted, this returns the results so far, with
// the models marked as cut short.
Result<ParallelResult> measure_together(Run& run, const std::vector<ModelResult>& alone);

// At a common limit the kernel kills the largest process, even if another one grew. This function adds to the
// errors in `together` which models exceeded the same limit alone. A killed model that fits alone is marked
// neither as over the limit nor as within it.
void explain_kills_at_common_limit(std::vector<ModelResult>& together, const std::vector<ModelResult>& alone);

// Resident memory of all workers together, each shared page counted once. The sum of PSS is too low: it
// leaves out the part of common pages (the runtime's code) that counts for Headroom's other processes. So
// file pages and shared memory each count as the larger of two figures: the largest process, or the sum of
// the shares. Absent before Linux 5.3, which does not split PSS by kind.
std::optional<Bytes> resident_without_duplicates(const std::vector<ProcessMemory>& samples);

// Absent without a limit, and if the run was cut short before the limit was exceeded.
std::optional<bool> stayed_within_common_limit(const ParallelResult& result,
                                               const std::optional<Bytes>& limit, bool was_cut_short);

// --- Extra runs. An interrupted run returns its results so far.

Result<PipelineResult> measure_pipeline(Run& run, std::vector<std::string>& warnings);

// A budget applies to the memory of one device. So it is an error if the models use several devices, or if a
// model with a separate process is not on the CPU.
Status check_pool(const BenchOptions& options);

// The peaks of a model that ran alone, without its runtime and frames. File pages are left out, because they
// do not count in a budget. On a GPU: its GPU memory. `load_peak` is the larger of both peaks, because in a
// pool a load includes the warm-up runs. With `isolated`, the peaks include the runtime, because the model's
// separate process needs one.
struct PeaksAlone {
  Bytes load_peak, run_peak;
};
PeaksAlone peaks_alone(const ModelResult& alone, const std::string& device, bool isolated = false);

// `alone`: the results of each model alone. The pool expects that a model's load needs as much memory.
Result<PoolResult> measure_pool(Run& run, const std::vector<ModelResult>& alone,
                                std::vector<std::string>& warnings);

// --layers: after all measurements, each model runs a few more frames under the tracer, in a separate
// process. The report then shows what the model's memory consists of. Measured runs are never traced.
// The recording stays in run_folder/layers/MODEL.hrec. The run's limit does not apply, because the tracer's
// own memory would count.
Result<LayerMemory> trace_layers(Run& run, const PreparedModel& model);

// --- The order of all phases (measurements.cpp).

// Measures the models alone and updates the reports in between. Adds a result for each requested model; with
// --skip-inference, the result of the setup phase. An interrupt sets run.interrupted.
void measure_models(Run& run);

// The extra runs that are requested. One that fails or is stopped does not change the results of the single
// models. Sets run.interrupted and run.extra_failed.
void measure_extras(Run& run);

}  // namespace headroom::bench
