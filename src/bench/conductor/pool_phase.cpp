#include "bench/conductor/pool_phase.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "bench/conductor/measurement_plans.h"
#include "bench/conductor/model_result.h"
#include "bench/conductor/supervise.h"
#include "limits/memory_limit.h"
#include "monitoring/latency_summary.h"

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

PooledModel model_of(const WorkerModel& model, const PooledAccount& account) {
  PooledModel pooled;
  pooled.name = model.name;
  pooled.every = model.every;
  pooled.isolated = model.isolated;
  pooled.requests = account.requests;
  pooled.hits = account.hits;
  pooled.loads = static_cast<std::int64_t>(account.loads.size());
  pooled.unloads = account.unloads;
  pooled.evictions = account.evictions;
  pooled.refusals = account.refusals;
  pooled.failures = account.failures;
  pooled.error = account.error;
  pooled.charge = account.charge;
  pooled.load = pool_summary_of(account.loads);
  pooled.wait = pool_summary_of(account.waits);
  return pooled;
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
  for (const ModelSpec& model : options.models)
    devices.insert(model.device.empty() ? options.device : model.device);
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

Result<PoolResult> measure_pool(const BenchContext& context, const std::vector<ModelResult>& alone,
                                std::vector<std::string>& warnings) {
  auto limit = limit_for(context, "pool");
  if (!limit) return forward_error(limit);
  WorkerJob job = job_for(context, WorkerKind::pool);
  job.pool = WorkerPool{*context.options.pool,
                        {context.options.timeout.count / kLoadsInTimeout},
                        (context.run_folder / "pool-events.jsonl").string(),
                        context.options.pool_threads.value_or(1)};
  bool takes_frames = false;
  for (const PreparedModel& model : context.prepared.models) {
    if (model.status != ModelStatus::ok) continue;
    WorkerModel pooled = worker_model(context, model);
    const auto measured = std::find_if(alone.begin(), alone.end(),
                                       [&](const ModelResult& result) { return result.name == model.name; });
    if (measured != alone.end()) {
      const PeaksAlone peaks = peaks_alone(*measured, pooled.settings.device, pooled.isolated);
      pooled.load_peak = peaks.load_peak;
      pooled.run_peak = peaks.run_peak;
    }
    job.models.push_back(std::move(pooled));
    takes_frames = takes_frames || model.takes_frames;
  }
  PoolResult result;
  result.budget = *context.options.pool;
  result.threads = context.options.pool_threads.value_or(1);
  if (job.models.empty()) {
    result.error = "no model passed the setup phase";
    return result;
  }
  const std::vector<WorkerModel> models = job.models;
  auto run = WorkerRun::start(plan_for(context, "pool", std::move(job), takes_frames, limit->get()));
  if (!run) return forward_error(run);
  supervise({run->get()}, context.interrupt, context.options.metrics_interval,
            ticker(context, "pool", "pool", frames_expected(context, takes_frames)));
  const ModelResult whole = (*run)->result();
  const WorkerAccount& account = (*run)->account();
  warnings = whole.warnings;
  result.status = whole.status;
  result.error = whole.error;
  result.died_in = whole.died_in;
  result.memory = whole.memory;
  result.gpu_memory = whole.gpu_memory;
  result.skipped_frames = whole.skipped_frames;
  result.frames_held = account.frames_held;
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
    result.models.push_back(
        model_of(models[i], i < account.pool.models.size() ? account.pool.models[i] : PooledAccount{}));
    PooledModel& model = result.models.back();
    if (i < account.models.size() && !account.models[i].frames.empty())
      model.inference = inference_latency(account.models[i].frames);
    if (!model.charge) result.all_at_once.reset();
    if (result.all_at_once) result.all_at_once = *result.all_at_once + *model.charge;
  }
  judge(result);
  return result;
}

}  // namespace headroom::bench
