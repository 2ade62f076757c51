#include "bench/conductor/setup_phase.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/conductor/gpu_limit.h"
#include "bench/conductor/measuring_child.h"
#include "inference/backend.h"
#include "inference/vos/contract.h"
#include "report/words.h"
#include "sources/host_info.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

struct TrialOutcome {
  ModelResult result;
  ModelFacts facts;
  bool is_input_error = false;  // the worker refused the model's files
};

// Runs one model in one child under the limit, on blank frames. This proves that it loads and runs, or times
// one combination of settings. A model that crashes, hangs or runs out of memory harms no other process, and
// is a result; an error means that the trial could not start or was interrupted. `reserved` is subtracted
// from the limit, for memory that only the measured run needs.
Result<TrialOutcome> run_trial(const WorkerModel& model, WorkerKind kind, const PreparationContext& context,
                               Bytes reserved = {}) {
  const BenchOptions& options = context.options;
  std::string note;
  std::optional<Bytes> bytes = options.memory_limit;
  if (bytes && *bytes > reserved) bytes = *bytes - reserved;
  auto limit = limits::make_memory_limit(model.name, bytes, options.limit_mechanism, note);
  if (!limit) return forward_error(limit);
  WorkerPlan plan;
  plan.label = model.name;
  plan.limit = limit->get();
  plan.device_account = context.device_account;
  plan.timeout = options.timeout;
  plan.job.kind = kind;
  plan.job.models = {model};
  plan.job.image_size = options.image_size;
  plan.job.confidence = options.confidence;
  plan.job.iou = options.iou;
  // Two blank frames show that a model runs. A timed trial warms up as the measured run does.
  plan.job.warmup_frames = kind == WorkerKind::setup ? 2 : options.warmup_frames;
  if (options.vos) {
    WorkerVos& vos = plan.job.vos.emplace();
    const auto spec = std::ranges::find(options.models, model.name, &ModelSpec::name);
    vos.prompt = spec != options.models.end() && spec->prompt ? *spec->prompt : options.vos->prompt;
    vos.profile = options.vos->profile;
    vos.plane_type = options.vos->planes;
    vos.non_overlap = context.non_overlap;
    if (!context.object_counts.empty()) vos.most_objects = context.object_counts.back();
  }
  auto worker = WorkerRun::start(plan);
  if (!worker) return forward_error(worker);
  if (!supervise({worker->get()}, context.interrupt, options.metrics_interval, nullptr))
    return failure("the trial of model " + model.name + " was stopped", "interrupted");
  TrialOutcome outcome{(*worker)->result(), {}, (*worker)->account().is_input_error};
  if (const auto& models = (*worker)->account().models; !models.empty()) outcome.facts = models.front();
  return outcome;
}

PreparedModel failed_model(PreparedModel model, const Error& error) {
  model.status = ModelStatus::failed;
  model.error = error.sentence();
  return model;
}

// Keeps the memory figures of a successful warm-up. It measured nothing else.
ModelResult memory_of_warmup(const ModelResult& trial) {
  ModelResult kept;
  kept.name = trial.name;
  kept.status = trial.status;
  kept.memory = trial.memory;
  kept.memory.run_mean.reset();  // a mean over two frames says nothing
  kept.memory.pss_run_peak.reset();
  kept.gpu_memory = trial.gpu_memory;
  return kept;
}

// Takes the facts about the model that a trial reported. A model that ran out of memory while loading
// reported none.
void take_facts(PreparedModel& model, const TrialOutcome& outcome) {
  model.backend_version = outcome.result.backend_version;
  model.task = outcome.result.task;
  model.input = outcome.result.input;
  model.takes_frames = outcome.facts.takes_frames;
  model.without_task = outcome.facts.without_task;
  model.class_names = outcome.facts.class_names;
  if (outcome.facts.precision) model.settings.precision = *outcome.facts.precision;
  if (!outcome.facts.outputs.empty()) model.outputs = outcome.facts.outputs;
}

void take_outcome(PreparedModel& model, const TrialOutcome& outcome) {
  take_facts(model, outcome);
  model.status = outcome.result.status;
  model.error = outcome.result.error;
  model.is_refused = model.forced_task == "vos" && outcome.is_input_error;
  if (outcome.result.vos) model.vos = outcome.result.vos;
  model.trial = model.status == ModelStatus::ok ? memory_of_warmup(outcome.result) : outcome.result;
}

TuneTrial trial_of(const ModelResult& result, const RuntimeSettings& settings) {
  TuneTrial trial;
  trial.settings = settings;
  trial.status = result.status;
  trial.error = result.error;
  trial.peak = result.memory.run_peak;
  trial.within_limit = result.memory.within_limit;
  for (const GpuMemory& gpu : result.gpu_memory) {
    trial.gpu_peak = std::max(gpu.load_peak, gpu.run_peak);
    if (gpu.within_limit == false) trial.within_limit = false;
  }
  if (result.inference) trial.p50 = result.inference->p50;
  return trial;
}

// A model that failed for lack of memory may work with other settings.
bool is_worth_tuning(const PreparedModel& model) {
  return model.status == ModelStatus::ok || model.status == ModelStatus::oom ||
         model.status == ModelStatus::timeout;
}

// Applies the settings that the search found. `outcomes` has the successful trials.
void take_tuning(PreparedModel& model, TuneOutcome found, const std::vector<TrialOutcome>& outcomes,
                 const PreparationContext& context) {
  const auto keeps_limit = [](const TuneTrial& trial) { return trial.within_limit != false; };
  if (std::none_of(found.trials.begin(), found.trials.end(), keeps_limit))
    context.log_step(
        fmt::format("{}: none of {} settings stays within the limit; keeping the requested settings",
                    model.name, found.trials.size()));
  model.smallest_settings = found.smallest;
  model.trials = std::move(found.trials);
  const auto kept = std::find_if(outcomes.begin(), outcomes.end(), [&](const TrialOutcome& outcome) {
    return outcome.result.settings == found.fastest;
  });
  if (kept == outcomes.end()) return;  // no settings fit: keep the result of the first trial
  model.settings = found.fastest;
  take_outcome(model, *kept);
}

// `first` is the result of the warm-up with the requested settings. If it failed, it is not repeated.
Result<PreparedModel> tune(PreparedModel model, WorkerModel worker, const ModelResult& first,
                           const PreparationContext& context) {
  const int cores = sources::read_host_info().cpus;
  std::vector<TrialOutcome> outcomes;
  const auto attempt = [&](const RuntimeSettings& settings) -> Result<TuneTrial> {
    TuneTrial trial;
    if (settings == model.settings && first.status != ModelStatus::ok) {
      trial = trial_of(first, settings);
    } else {
      worker.settings = settings;
      // If the model has not reported its task yet, it may take frames.
      const Bytes held = model.takes_frames || model.task.empty() ? context.frames_held : Bytes{};
      auto outcome = run_trial(worker, WorkerKind::tune, context, held);
      if (!outcome) return forward_error(outcome);
      trial = trial_of(outcome->result, settings);
      if (trial.status == ModelStatus::ok) {
        take_facts(model, *outcome);
        outcome->result.settings = settings;
        outcome->result.memory_series.clear();
        outcomes.push_back(std::move(*outcome));
      }
    }
    context.log_step(fmt::format("{}: {} → {}", model.name, settings.describe(),
                                 trial.p50 ? format_duration(*trial.p50) : trial.error));
    model.trials.push_back(trial);
    context.report(model);
    return trial;
  };
  auto found = search_settings(model.settings, cores, attempt);
  if (!found) return forward_error(found);
  take_tuning(model, std::move(*found), outcomes, context);
  return model;
}

// Tries the model with the first backend that can be loaded.
Result<TrialOutcome> try_backends(PreparedModel& model, WorkerModel& worker,
                                  const std::vector<inference::BackendFile>& backends,
                                  const PreparationContext& context) {
  Result<TrialOutcome> outcome = input_error("no backend was tried");
  for (const inference::BackendFile& backend : backends) {
    model.backend = backend.name;
    model.backend_path = backend.path.string();
    worker = {model.name, model.path, model.backend, model.backend_path, model.forced_task, model.settings};
    outcome = run_trial(worker, WorkerKind::setup, context);
    if (!outcome) return outcome;
    // Only if a plug-in could not be loaded, the next backend is tried. Such a trial reported no runtime
    // version.
    if (outcome->result.status != ModelStatus::failed || !outcome->result.backend_version.empty()) break;
    if (&backend == &backends.back()) break;
    model.passed_over = fmt::format("backend {} cannot be used, trying the next one: {}", backend.name,
                                    outcome->result.error);
    context.log_step(fmt::format("{}: {}", model.name, model.passed_over));
  }
  return outcome;
}

// Returns an error only for an interrupt. Files that cannot be read fail the model.
Status fingerprint_in_child(PreparedModel& model, const PreparationContext& context) {
  auto files = fingerprint_in_child(model.path, context.options.timeout, context.interrupt);
  if (files) {
    model.fingerprint = std::move(files->fingerprint);
    model.file_size = files->size;
  } else if (was_interrupted(files.error())) {
    return forward_error(files);
  } else if (model.status == ModelStatus::ok) {
    model = failed_model(std::move(model), files.error());
    if (was_silent(files.error())) model.status = ModelStatus::timeout;
  }
  return {};
}

// The first file in a folder with graphs of another project.
Result<fs::path> first_file_of(const fs::path& folder, const std::string& backend) {
  std::vector<fs::path> files;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    const auto able = inference::backends_for_extension(entry->path().extension().string());
    if (!able.empty() && (backend.empty() || std::ranges::find(able, backend) != able.end()))
      files.push_back(entry->path());
  }
  if (!files.empty()) return std::ranges::min(files);
  return input_error(fmt::format("{} cannot track objects in videos", folder.string()), "it has no graphs",
                     "export the model with python/export_vos.py (docs/video-segmentation.md)");
}

// The graph of a model of --task vos whose extension chooses the backend.
Result<fs::path> first_graph_of(const fs::path& model, const std::string& backend) {
  std::error_code unknown;
  if (!inference::vos::follows_contract(model))
    return fs::is_directory(model, unknown) ? first_file_of(model, backend) : Result<fs::path>(model);
  Result<fs::path> found = input_error(fmt::format("no graphs in {}", model.string()));
  for (const std::string_view name : {"onnxruntime", "libtorch", "tensorrt"}) {
    auto files = inference::vos::find_contract_files(model, backend.empty() ? name : backend);
    if (files) return files->graphs.front();
    if (name == "onnxruntime") found = forward_error(files);
    if (!backend.empty()) break;
  }
  return found;
}

// With --task vos: a trial that ran out of memory with several objects at a time is repeated with fewer, as
// many as other videos have. If one succeeds, only the videos with more objects are left out.
Status try_fewer_objects(PreparedModel& model, const WorkerModel& worker, const PreparationContext& context) {
  PreparationContext fewer = context;
  std::vector<std::int64_t>& counts = fewer.object_counts;
  while (model.status == ModelStatus::oom && !counts.empty()) {
    const bool fits_one = model.trial && model.trial->vos && !model.trial->vos->trials.empty();
    if (!fits_one || counts.back() == 1) return {};
    const std::int64_t over = counts.back();
    if (counts.size() == 1) {  // no video has fewer
      model.error += fmt::format(
          "; it was tracking {} objects together, of which one fits: add --vos-objects alone", over);
      return {};
    }
    counts.pop_back();
    context.log_step(fmt::format("{}: out of memory with {} objects: {}; trying {}", model.name, over,
                                 model.error, report::counted(counts.back(), "object")));
    const std::string why = model.error;
    auto outcome = run_trial(worker, WorkerKind::setup, fewer);
    if (!outcome) return forward_error(outcome);
    take_outcome(model, *outcome);
    model.objects_over_limit = over;
    model.why_over_limit = why;
  }
  return {};
}

bool lacks_its_source(const PreparedModel& model, const BenchOptions& options) {
  return model.status == ModelStatus::ok && model.takes_frames && !options.source;
}

}  // namespace

Result<PreparedModel> prepare_model(const ModelSpec& spec, const PreparationContext& context) {
  const BenchOptions& options = context.options;
  PreparedModel model;
  model.name = spec.name;
  model.path = spec.path;
  model.forced_task = spec.task.empty() ? options.task : spec.task;
  model.settings.threads = options.threads;
  model.settings.device = device_of(spec, options);
  model.settings.precision = model.asked_precision = precision_of(spec, options);
  if (model.settings.device != "cpu") {
    model.settings.conv_search = options.conv_search;
    model.settings.device_graph = options.capture_graph;
  }
  model.asked_settings = spec.settings;
  if (options.vos) model.asked_prompt = spec.prompt.value_or(options.vos->prompt);
  // the command line was checked, so this job comes from another version
  if (!set_settings(model.settings, spec.settings))
    return failed_model(std::move(model),
                        {ErrorKind::usage, fmt::format("unknown settings '{}'", spec.settings), "", ""});
  const auto graph = options.vos
                         ? first_graph_of(spec.path, spec.backend.empty() ? options.backend : spec.backend)
                         : Result<fs::path>(spec.path);
  if (!graph) {
    model.is_refused = options.vos.has_value();
    return failed_model(std::move(model), graph.error());
  }
  const auto backends = inference::choose_backends(
      *graph, spec.backend.empty() ? options.backend : spec.backend, model.settings.device);
  if (!backends) return failed_model(std::move(model), backends.error());

  WorkerModel worker;
  auto outcome = try_backends(model, worker, *backends, context);
  if (!outcome) return forward_error(outcome);
  take_outcome(model, *outcome);
  worker.settings = model.settings;
  worker.outputs = model.outputs;
  // After the trial, so that a file whose reading hangs is reported with the phase in which it hung.
  if (auto read = fingerprint_in_child(model, context); !read) return forward_error(read);
  // Without readable files, no settings can work.
  const bool is_readable = !model.fingerprint.empty();
  if (options.tune && is_readable && is_worth_tuning(model) && !lacks_its_source(model, options)) {
    auto tuned = tune(std::move(model), worker, outcome->result, context);
    if (!tuned) return tuned;
    model = std::move(*tuned);
  }
  if (options.vos && is_readable)
    if (auto tried = try_fewer_objects(model, worker, context); !tried) return forward_error(tried);
  if (lacks_its_source(model, options))
    return failed_model(std::move(model), {ErrorKind::usage, kNeedsSource, "", ""});
  return model;
}

}  // namespace headroom::bench
