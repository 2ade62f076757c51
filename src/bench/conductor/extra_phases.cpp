#include "bench/conductor/phases.h"

#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "attribution/peak_shares.h"
#include "attribution/recording_analysis.h"
#include "base/files.h"
#include "base/json.h"
#include "bench/conductor/child_process.h"
#include "bench/conductor/gpu_limit.h"
#include "bench/conductor/worker_result.h"
#include "bench/processes.h"
#include "monitoring/latency_summary.h"
#include "recording/recording.h"
#include "report/run/report_json.h"
#include "trace/recording_files.h"
#include "trace/tracer_environment.h"

namespace headroom::bench {
namespace {

// The pool must detect a load that hangs before the conductor kills a worker that is silent for --timeout.
constexpr std::int64_t kLoadsInTimeout = 2;

// File pages at the end of a phase: mostly the runtime's code, which the kernel can reclaim.
std::optional<Bytes> file_pages(const ModelResult& alone, Phase phase) {
  std::optional<Bytes> pages;
  for (const PhaseMark& mark : alone.phases)
    if (mark.phase == phase) pages = mark.file_backed;
  return pages;
}

std::optional<LatencySummary> pool_summary_of(const std::vector<std::int64_t>& times) {
  if (times.empty()) return std::nullopt;
  return monitoring::summarise_latency(times);
}

// A pool fails if it did not serve every request, or exceeded its budget.
void judge(PoolResult& result) {
  if (result.status != ModelStatus::ok) return;
  for (const PooledModel& model : result.models) {
    if (model.refusals + model.failures == 0) continue;
    result.status = ModelStatus::failed;
    result.error = fmt::format("{} of {} requests for {} failed: {}", model.refusals + model.failures,
                               model.requests, model.name, model.error);
    return;
  }
  if (result.samples_over == 0) return;
  result.status = ModelStatus::failed;
  result.error = fmt::format("{} of {} samples exceeded the budget, peak {}", result.samples_over,
                             result.samples, format_bytes(result.peak.value_or(Bytes{})));
}

}  // namespace

PeaksAlone peaks_alone(const ModelResult& alone, const std::string& device, bool isolated) {
  Bytes load, run;
  if (device == "cpu") {
    const ModelMemory& memory = alone.memory;
    const Bytes runtime = isolated ? Bytes{} : memory.runtime.value_or(Bytes{});
    const auto before = isolated ? Bytes{} : file_pages(alone, Phase::runtime_loaded);
    const auto without_files = [&](Bytes resident, Phase phase) {
      const auto after = file_pages(alone, phase);
      return resident - (before && after ? std::max(Bytes{}, *after - *before) : Bytes{});
    };
    load = without_files(memory.load_peak.value_or(Bytes{}) - runtime, Phase::model_loaded);
    run = without_files(memory.run_peak.value_or(Bytes{}) - memory.frames.value_or(Bytes{}) - runtime,
                        Phase::running);
  }
  for (const GpuMemory& gpu : alone.gpu_memory) {
    if (gpu.device != device) continue;
    const Bytes runtime = gpu.runtime.value_or(Bytes{});
    load = gpu.load_peak.value_or(Bytes{}) - runtime;
    run = gpu.run_peak.value_or(Bytes{}) - runtime;
  }
  return {std::max({Bytes{}, load, run}), std::max(Bytes{}, run)};
}

Status check_pool(const BenchOptions& options) {
  if (!options.pool && options.pool_threads)
    return usage_error("--pool-threads needs a pool", "--pool is missing",
                       "add --pool SIZE, or remove --pool-threads");
  if (!options.pool) return {};
  std::set<std::string> devices;
  for (const ModelSpec& model : options.models) devices.insert(device_of(model, options));
  for (const ModelSpec& model : options.models)
    if (model.isolated && devices != std::set<std::string>{"cpu"})
      return usage_error(fmt::format("{} cannot be isolated", model.name),
                         "the pool cannot count the GPU memory of another process",
                         "remove isolated=on, or use --device cpu");
  if (devices.size() < 2) return {};
  return usage_error("--pool needs all models on one device",
                     fmt::format("the models run on {}", fmt::join(devices, ", ")),
                     "use one --device for all models, or a separate bench for each device");
}

namespace {

// A process with all models, and its limit.
struct SharedProcess {
  std::unique_ptr<limits::MemoryLimit> limit;
  std::unique_ptr<WorkerRun> run;
};

bool takes_frames(const PreparedModel& model) {
  return model.status == ModelStatus::ok && model.takes_frames;
}

// Runs the job to its end and takes the figures that the pipeline and the pool have in common.
template <class SharedResult>
Result<SharedProcess> run_to_the_end(Run& run, const std::string& name, WorkerJob job, SharedResult& result) {
  auto limit = limit_for(run, name);
  if (!limit) return forward_error(limit);
  const bool needs_frames = std::ranges::any_of(run.prepared.models, takes_frames);
  auto worker = WorkerRun::start(plan_for(run, name, std::move(job), needs_frames, limit->get()));
  if (!worker) return forward_error(worker);
  supervise({worker->get()}, run.interrupt, run.options.metrics_interval,
            ticker(run, name, name, frames_expected(run, needs_frames)));
  const ModelResult whole = (*worker)->result();
  result.status = whole.status;
  result.error = whole.error;
  result.died_in = whole.died_in;
  result.memory = whole.memory;
  result.gpu_memory = whole.gpu_memory;
  result.skipped_frames = whole.skipped_frames;
  result.frames_held = (*worker)->account().frames_held;
  return SharedProcess{std::move(*limit), std::move(*worker)};
}

constexpr const char* kNoModel = "no model passed the setup phase";

}  // namespace

Result<PipelineResult> measure_pipeline(Run& run, std::vector<std::string>& warnings) {
  WorkerJob job = job_for(run, WorkerKind::pipeline);
  for (const PreparedModel& model : run.prepared.models)
    if (model.status == ModelStatus::ok) job.models.push_back(worker_model(run, model));
  PipelineResult result;
  result.error = kNoModel;
  if (job.models.empty()) return result;
  auto process = run_to_the_end(run, "pipeline", std::move(job), result);
  if (!process) return forward_error(process);
  const WorkerAccount& account = process->run->account();
  warnings = process->run->result().warnings;
  result.runtime = result.memory.runtime;
  result.loaded = result.memory.loaded;
  for (const PhaseAccount& phase : account.phases) result.peak = std::max(result.peak, phase.peak);
  result.peak = std::max({result.peak, result.memory.load_peak, result.memory.run_peak});
  std::optional<Bytes> before = result.runtime;
  for (const ModelAccount& loaded : account.models) {
    PipelineModel& model = result.models.emplace_back();
    model.name = loaded.name;
    model.load_time = loaded.load_time;
    if (before && loaded.resident_after_load) model.memory_increment = *loaded.resident_after_load - *before;
    if (loaded.resident_after_load) before = loaded.resident_after_load;
    if (!loaded.frames.empty()) model.inference = inference_latency(loaded.frames);
  }
  if (account.models.empty() || account.models.front().frames.empty()) return result;
  result.frames = static_cast<std::int64_t>(account.models.front().frames.size());
  result.frame = monitoring::summarise_latency_in_passes(times_through_all(account.models, false));
  result.fps = 1e9 / monitoring::summarise_counts(times_through_all(account.models, true)).mean;
  return result;
}

Result<PoolResult> measure_pool(Run& run, const std::vector<ModelResult>& alone,
                                std::vector<std::string>& warnings) {
  PoolResult result;
  result.budget = *run.options.pool;
  result.threads = run.options.pool_threads.value_or(1);
  WorkerJob job = job_for(run, WorkerKind::pool);
  job.pool = WorkerPool{result.budget,
                        {run.options.timeout.count / kLoadsInTimeout},
                        (run.folder.path / "pool-events.jsonl").string(),
                        result.threads};
  for (const PreparedModel& model : run.prepared.models) {
    if (model.status != ModelStatus::ok) continue;
    WorkerModel& pooled = job.models.emplace_back(worker_model(run, model));
    const ModelResult* const measured = find_result(alone, model.name);
    if (measured == nullptr) continue;
    const PeaksAlone peaks = peaks_alone(*measured, pooled.settings.device, pooled.isolated);
    pooled.load_peak = peaks.load_peak;
    pooled.run_peak = peaks.run_peak;
  }
  result.error = kNoModel;
  if (job.models.empty()) return result;
  const std::vector<WorkerModel> models = job.models;
  auto process = run_to_the_end(run, "pool", std::move(job), result);
  if (!process) return forward_error(process);
  const WorkerAccount& account = process->run->account();
  warnings = process->run->result().warnings;
  result.baseline = account.pool.baseline;
  result.books_peak = account.pool.books_peak;
  result.peak = account.pool.peak;
  result.samples = account.pool.samples;
  result.samples_over = account.pool.samples_over;
  result.load_time = account.pool.load_time;
  result.reload_time = account.pool.reload_time;
  result.frames = static_cast<std::int64_t>(account.pool.frames.size());
  result.frame = pool_summary_of(account.pool.frames);
  if (result.frame && result.frame->mean_ns > 0) result.fps = 1e9 / result.frame->mean_ns;
  result.all_at_once = result.baseline;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const PooledAccount pooled = i < account.pool.models.size() ? account.pool.models[i] : PooledAccount{};
    PooledModel& model = result.models.emplace_back(pooled.counters);
    model.name = models[i].name;
    model.every = models[i].every;
    model.isolated = models[i].isolated;
    model.loads = static_cast<std::int64_t>(pooled.loads.size());
    model.load = pool_summary_of(pooled.loads);
    model.wait = pool_summary_of(pooled.waits);
    if (i < account.models.size() && !account.models[i].frames.empty())
      model.inference = inference_latency(account.models[i].frames);
    if (!model.charge) result.all_at_once.reset();
    if (result.all_at_once) result.all_at_once = *result.all_at_once + *model.charge;
  }
  judge(result);
  return result;
}

namespace fs = std::filesystem;
namespace {

// The runtime's profile covers a session's first three runs. A few more runs show which memory stays.
constexpr std::int64_t kTracedFrames = 8, kTracedWarmup = 2;
// Recording every allocation of so few frames takes a few megabytes. The bound stops a model that allocates
// endlessly from filling the disk.
constexpr Bytes kLargestRecording = gibibytes(1);

Result<Json> read_layers(const Json& job) {
  auto recording = recording::Recording::open(get_text(job, "recording"));
  if (!recording) return forward_error(recording);
  const auto analysis = attribution::analyze_recording(*recording, {.timeline_points = 2});
  return report::to_json(attribution::layer_memory(recording->info(), recording->stacks(), analysis));
}

Result<LayerMemory> analyse(const fs::path& recording, Interrupt& interrupt) {
  auto answer = run_helper({.verb = "_layers", .purpose = "reading the recording of the layers"},
                           {{"recording", recording.string()}}, interrupt);
  if (!answer) return forward_error(answer);
  return report::layer_memory_from_json(*answer);
}

}  // namespace

Result<LayerMemory> trace_layers(Run& run, const PreparedModel& model) {
  const std::string inside = fmt::format("layers/{}.hrec", file_name_of(model.name));
  std::error_code code;
  const fs::path recording = fs::absolute(run.folder.path / inside, code);
  if (auto made = make_folder(recording.parent_path()); !made) return forward_error(made);
  trace::TraceOptions options;
  options.library = trace::tracer_library();
  options.full = true;
  if (run.device_account) {
    options.device_limits = run.device_account->limits();
    options.account = run.device_account->file().string();
  }

  WorkerJob job = inference_job(run, model);
  job.max_frames = std::min(job.max_frames, kTracedFrames);
  job.warmup_frames = std::min(job.warmup_frames, kTracedWarmup);
  job.sample_images = 0;
  if (job.sequences.size() > 1) job.sequences.resize(1);
  if (!job.sequences.empty() && job.sequences.front().objects.size() > 1)
    job.sequences.front().objects.resize(1);
  WorkerPlan plan = plan_for(run, model.name, std::move(job), model.takes_frames, nullptr);
  plan.environment = trace::tracer_environment(
      options, recording, std::min(kLargestRecording, trace::default_size_limit(recording)));
  auto worker = WorkerRun::start(plan);
  if (!worker) return forward_error(worker);
  const Tick quiet = [](const std::vector<WorkerRun*>&) {};
  if (!supervise({worker->get()}, run.interrupt, run.options.metrics_interval, quiet))
    return failure("tracing the layers was stopped", "interrupted");
  const ModelResult result = (*worker)->result();
  if (result.status != ModelStatus::ok)
    return failure("cannot trace the layers",
                   fmt::format("the traced run ended as {}: {}", name_of(result.status), result.error));
  trace::compact_recording(recording);
  auto layers = analyse(recording, run.interrupt);
  if (!layers) return layers;
  layers->recording = inside;
  layers->frames = result.frames;
  return layers;
}

int run_layers_process() { return serve_helper(read_layers); }

}  // namespace headroom::bench
