#include "bench/conductor/inference_phase.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/run_folder.h"
#include "bench/conductor/common_limit.h"
#include "bench/conductor/gpu_limit.h"
#include "bench/conductor/gpu_results.h"
#include "bench/conductor/measurement_plans.h"
#include "bench/conductor/model_result.h"
#include "bench/conductor/supervise.h"
#include "inference/task.h"
#include "limits/memory_limit.h"
#include "monitoring/latency_summary.h"

namespace headroom::bench {
namespace {

// The thresholds that the task used: those of the model, else those of the run.
void set_thresholds(ModelResult& result, const BenchOptions& options) {
  const auto tasks = inference::task_names();
  const auto task = std::find_if(tasks.begin(), tasks.end(),
                                 [&](const inference::TaskName& known) { return known.name == result.task; });
  if (task == tasks.end() || task->thresholds == inference::Thresholds::none) return;
  const auto spec = std::find_if(options.models.begin(), options.models.end(),
                                 [&](const ModelSpec& known) { return known.name == result.name; });
  const ModelSpec own = spec == options.models.end() ? ModelSpec{} : *spec;
  result.confidence = own.confidence.value_or(options.confidence);
  if (task->thresholds == inference::Thresholds::confidence_and_iou)
    result.iou = own.iou.value_or(options.iou);
}

void complete(ModelResult& result, const PreparedModel& model, const BenchOptions& options) {
  result.path = model.path;
  result.backend = model.backend;
  if (result.backend_version.empty())
    result.backend_version = model.backend_version;
  else if (!model.backend_version.empty() && result.backend_version != model.backend_version)
    result.warnings.push_back(
        fmt::format("prepared with {} {}, but ran with {}; prepare it again without --skip-setup",
                    model.backend, model.backend_version, result.backend_version));
  if (result.task.empty()) result.task = model.task;
  if (result.input.empty()) result.input = model.input;
  result.file_size = model.file_size;
  result.settings = model.settings;
  result.trials = model.trials;
  result.smallest_settings = model.smallest_settings;
  if (!model.passed_over.empty()) result.warnings.push_back(model.passed_over);
  set_thresholds(result, options);
}

// Partial results are saved every 5 s. With so many frames that a save takes long, saving uses at most 2 % of
// the time.
constexpr Nanoseconds kPartialInterval{5'000'000'000};
constexpr std::int64_t kPartialShare = 50;

// Tick function for a model that runs alone. It also saves partial results, in case the conductor is killed
// before the model ends.
Tick ticker_with_partial_results(const BenchContext& context, const PreparedModel& model, const Tick& tick) {
  return [&context, &model, tick,
          next = monotonic_now() + kPartialInterval](const std::vector<WorkerRun*>& runs) mutable {
    tick(runs);
    const Nanoseconds started = monotonic_now();
    if (started < next) return;
    ModelResult partial = runs.front()->result();
    complete(partial, model, context.options);
    context.partial_result(std::move(partial));
    const Nanoseconds ended = monotonic_now();
    next = ended + std::max(kPartialInterval, Nanoseconds{kPartialShare * (ended - started).count});
  };
}

// Without a control group that counts all models together, PSS measures each model and their total.
bool needs_shares(const BenchContext& context, const limits::MemoryLimit& limit) {
  return context.options.parallel && !limit.account().peak;
}

bool measures_frames(const WorkerRun* run) { return !run->has_ended() && run->is_in_run(); }

// In step, latencies differ from those of a run alone. If the other run left early, some frames had no turn.
void add_turns(ModelResult& result, const WorkerAccount& account, const std::string& id) {
  if (account.in_step && account.in_step->frames > 0)
    result.in_step = InStep{id, account.in_step->frames, account.in_step->one_processor};
  if (result.status != ModelStatus::ok) return;
  const std::int64_t had = result.in_step ? result.in_step->frames : 0;
  if (had < result.frames)
    result.warnings.push_back(fmt::format(
        "{} of {} frames were measured in step: the other run of --in-step had fewer frames, or ended early",
        had, result.frames));
  if (had == 0) return;
  result.cpu_percent.reset();  // the worker mostly waited during that time
  result.warnings.push_back(
      fmt::format("its frames took turns with those of another run (--in-step). Compare the two runs with "
                  "'headroom diff'. Without turns, frames may be faster, because the data stays in the "
                  "processor's caches{}",
                  result.in_step->one_processor ? ""
                                                : ". With several threads, other programs disturb the "
                                                  "comparison; for a clearer one, use --threads 1"));
}

constexpr double kNoisyCv = 0.025;
constexpr std::int64_t kFewestForCv = 10;  // with fewer frames, one slow frame decides

void add_warnings(const BenchContext& context, ModelResult& result) {
  add_gpu_warnings(result);
  if (result.inference && result.inference->n >= kFewestForCv && result.inference->cv > kNoisyCv)
    result.warnings.push_back(
        fmt::format("inference latency varies by {:.1f} % (over 2.5 %): busy machine, changing clock, or "
                    "work that depends on the input",
                    100 * result.inference->cv));
  if (auto throttling = context.metrics.take_throttling("it ran"))
    result.warnings.push_back(std::move(*throttling));
}

}  // namespace

Result<MeasuredModel> measure_alone(const BenchContext& context, const PreparedModel& model) {
  auto limit = limit_for(context, model.name);
  if (!limit) return forward_error(limit);
  // With --parallel, the model holds as many frames as it will hold in the parallel run, so that the peaks
  // can be compared.
  WorkerPlan plan = plan_for(context, model.name, inference_job(context, model), model.takes_frames,
                             limit->get(), context.options.parallel ? frame_takers(context) : 1);
  MeasuredModel measured;
  measured.samples_path = plan.samples_path = context.run_folder / (file_name_of(model.name) + ".samples");
  const bool in_step = context.partner != nullptr && context.partner->is_common(model.name);
  std::optional<UniqueFd> turns;
  if (in_step) turns = context.partner->begin_model(model.name, context.interrupt);
  if (turns) {
    plan.turns_fd = turns->get();
    plan.job.turns = WorkerTurns{context.partner->is_first(), context.options.timeout};
  }
  auto run = WorkerRun::start(plan);
  turns.reset();  // so that the other worker notices when this one ends
  if (!run) return forward_error(run);
  measured.interrupted =
      !supervise({run->get()}, context.interrupt, context.options.metrics_interval,
                 ticker_with_partial_results(
                     context, model,
                     ticker(context, "inference", model.name, frames_expected(context, model.takes_frames))),
                 {needs_shares(context, **limit), {}});
  measured.result = (*run)->result();
  complete(measured.result, model, context.options);
  if (in_step) add_turns(measured.result, (*run)->account(), context.partner->id_of(model.name));
  if (context.partner != nullptr && !in_step)
    measured.result.warnings.emplace_back(
        "the other run of --in-step does not have this model; it may have run at the same time and disturbed "
        "it");
  add_warnings(context, measured.result);
  measured.class_names = model.class_names;
  measured.frames_held = (*run)->account().frames_held;
  measured.frames = (*run)->take_frames();
  return measured;
}

Result<ParallelResult> measure_together(const BenchContext& context, const std::vector<ModelResult>& alone) {
  // All models share one limit. With a control group, its peak is the joint peak as the kernel counts it.
  auto limit = limit_for(context, "parallel");
  if (!limit) return forward_error(limit);
  std::vector<std::unique_ptr<WorkerRun>> runs;
  std::vector<const PreparedModel*> models;
  std::int64_t expected = 0;
  const std::int64_t sharers = frame_takers(context);
  for (const PreparedModel& model : context.prepared.models) {
    if (model.status != ModelStatus::ok) continue;
    WorkerJob job = inference_job(context, model);
    job.sample_images = 0;
    job.wait_for_gate = true;
    auto run = WorkerRun::start(
        plan_for(context, model.name, std::move(job), model.takes_frames, limit->get(), sharers));
    if (!run) return forward_error(run);
    runs.push_back(std::move(*run));
    models.push_back(&model);
    expected += frames_expected(context, model.takes_frames);
  }
  std::vector<WorkerRun*> pointers;
  for (const auto& run : runs) pointers.push_back(run.get());
  std::optional<Bytes> sampled_joint_peak, sampled_resident_peak, sampled_run_peak;
  if (context.device_account != nullptr) context.device_account->reset_peaks();
  const ShareWatch shares{needs_shares(context, **limit), [&](const std::vector<WorkerRun*>& running) {
                            const std::optional<Bytes> share = joint_pss(running);
                            sampled_joint_peak = std::max(sampled_joint_peak, share);
                            if (std::any_of(running.begin(), running.end(), measures_frames))
                              sampled_run_peak = std::max(sampled_run_peak, share);
                            sampled_resident_peak = std::max(sampled_resident_peak, joint_resident(running));
                          }};
  // An interrupted run keeps its results so far; its models are marked as cut short.
  supervise(pointers, context.interrupt, context.options.metrics_interval,
            ticker(context, "parallel", "all models at once", expected), shares);

  ParallelResult result;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    result.together.push_back(runs[i]->result());
    complete(result.together.back(), *models[i], context.options);
    result.frames_held += runs[i]->account().frames_held;
    // The peak of the common group belongs to no single model.
    result.together.back().memory.cgroup_peak.reset();
    if (result.together.back().status != ModelStatus::ok) result.joint_peak_is_lower_bound = true;
  }
  // Other mechanisms limit each process separately.
  if ((*limit)->mechanism() == LimitMechanism::cgroup_v1 ||
      (*limit)->mechanism() == LimitMechanism::cgroup_v2)
    explain_kills_at_common_limit(result.together, alone);
  const CgroupMemory account = (*limit)->account();
  // Both sides of the comparison use the same measure: the groups' accounts, or PSS. Resident sizes would
  // count shared pages once per process. A sum that lacks a model could not be compared, so it is left out.
  std::optional<Bytes> sum = Bytes{};
  for (const ModelResult& together : result.together) {
    const auto is_same = [&](const ModelResult& model) { return model.name == together.name; };
    const auto model = std::find_if(alone.begin(), alone.end(), is_same);
    if (model == alone.end() || model->status != ModelStatus::ok) {
      sum.reset();
      break;
    }
    const auto peak = account.peak ? model->memory.cgroup_peak : model->memory.pss_peak;
    sum = sum && peak ? std::optional(*sum + *peak) : std::nullopt;
  }
  if (sum && *sum > Bytes{}) result.sum_of_peaks = sum;
  if (account.peak) {
    result.joint_peak = account.peak;
    result.joint_peak_source = name_of((*limit)->mechanism());
  } else if (sampled_joint_peak) {
    result.joint_peak = sampled_joint_peak;
    result.joint_peak_source = "pss_samples";
    result.joint_resident_peak = sampled_resident_peak;
    result.joint_peak_is_lower_bound = true;  // between two samples the peak may have been higher
  }
  result.joint_share_peak = sampled_run_peak;
  if (context.device_account != nullptr)
    result.gpu_memory =
        joint_gpu_memory(*context.device_account, cuda_devices(context.options), result.together, alone);
  result.within_limit = stayed_within_common_limit(result, context.options.memory_limit,
                                                   context.interrupt.signal_number() != 0);
  return result;
}

Result<PipelineResult> measure_pipeline(const BenchContext& context, std::vector<std::string>& warnings) {
  auto limit = limit_for(context, "pipeline");
  if (!limit) return forward_error(limit);
  WorkerJob job = job_for(context, WorkerKind::pipeline);
  bool takes_frames = false;
  for (const PreparedModel& model : context.prepared.models) {
    if (model.status != ModelStatus::ok) continue;
    job.models.push_back(worker_model(context, model));
    takes_frames = takes_frames || model.takes_frames;
  }
  PipelineResult result;
  if (job.models.empty()) {
    result.error = "no model passed the setup phase";
    return result;
  }
  auto run = WorkerRun::start(plan_for(context, "pipeline", std::move(job), takes_frames, limit->get()));
  if (!run) return forward_error(run);
  supervise({run->get()}, context.interrupt, context.options.metrics_interval,
            ticker(context, "pipeline", "pipeline", frames_expected(context, takes_frames)));
  const ModelResult whole = (*run)->result();
  warnings = whole.warnings;
  result.status = whole.status;
  result.error = whole.error;
  result.memory = whole.memory;
  result.gpu_memory = whole.gpu_memory;
  result.died_in = whole.died_in;
  result.runtime = whole.memory.runtime;
  result.loaded = whole.memory.loaded;
  for (const PhaseAccount& phase : (*run)->account().phases)
    if (phase.peak) result.peak = std::max(result.peak.value_or(Bytes{}), *phase.peak);
  result.peak = std::max({result.peak, whole.memory.load_peak, whole.memory.run_peak});
  result.skipped_frames = whole.skipped_frames;
  result.frames_held = (*run)->account().frames_held;
  std::optional<Bytes> before = whole.memory.runtime;
  const std::vector<ModelAccount>& accounts = (*run)->account().models;
  for (const ModelAccount& account : accounts) {
    PipelineModel model;
    model.name = account.name;
    model.load_time = account.load_time;
    if (before && account.resident_after_load)
      model.memory_increment = *account.resident_after_load - *before;
    if (account.resident_after_load) before = account.resident_after_load;
    if (!account.frames.empty()) model.inference = inference_latency(account.frames);
    result.models.push_back(std::move(model));
  }
  if (accounts.empty() || accounts.front().frames.empty()) return result;
  result.frames = static_cast<std::int64_t>(accounts.front().frames.size());
  result.frame = monitoring::summarise_latency_in_passes(times_through_all(accounts, false));
  result.fps = 1e9 / monitoring::summarise_counts(times_through_all(accounts, true)).mean;
  return result;
}

}  // namespace headroom::bench
