#include "bench/model_preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "bench/gpu_limit.h"
#include "bench/helper_process.h"
#include "bench/model_fingerprint.h"
#include "bench/trial.h"
#include "bench/tuner.h"
#include "inference/backend.h"
#include "sources/host_info.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

PreparedModel failed_model(PreparedModel model, const Error& error) {
  model.status = ModelStatus::failed;
  model.error = error.sentence();
  return model;
}

// What the warm-up of a model that came through leaves: its memory. It measured nothing else.
ModelResult memory_of_warmup(const ModelResult& trial) {
  ModelResult kept;
  kept.name = trial.name;
  kept.status = trial.status;
  kept.memory = trial.memory;
  kept.memory.run_mean.reset();  // of two frames
  kept.memory.pss_run_peak.reset();
  kept.gpu_memory = trial.gpu_memory;
  return kept;
}

// What a trial told of the model itself. One that ran out of memory while it was loaded told nothing.
void take_facts(PreparedModel& model, const TrialOutcome& outcome) {
  model.backend_version = outcome.result.backend_version;
  model.task = outcome.result.task;
  model.input = outcome.result.input;
  model.takes_frames = outcome.takes_frames;
  model.class_names = outcome.class_names;
  if (outcome.precision) model.settings.precision = *outcome.precision;
  if (!outcome.outputs.empty()) model.outputs = outcome.outputs;
}

void take_outcome(PreparedModel& model, const TrialOutcome& outcome) {
  take_facts(model, outcome);
  model.status = outcome.result.status;
  model.error = outcome.result.error;
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

// Less memory may be what it lacked: other settings may let it through.
bool is_worth_tuning(const PreparedModel& model) {
  return model.status == ModelStatus::ok || model.status == ModelStatus::oom ||
         model.status == ModelStatus::timeout;
}

// What the settings that were found mean for the model, of whose trials `outcomes` has those that came
// through.
void take_tuning(PreparedModel& model, TuneOutcome found, const std::vector<TrialOutcome>& outcomes,
                 const PreparationContext& context) {
  const auto keeps_limit = [](const TuneTrial& trial) { return trial.within_limit != false; };
  if (std::none_of(found.trials.begin(), found.trials.end(), keeps_limit))
    context.say(fmt::format("{}: none of {} settings stays within the limit; the ones asked for are kept",
                            model.name, found.trials.size()));
  model.smallest_settings = found.smallest;
  model.trials = std::move(found.trials);
  const auto kept = std::find_if(outcomes.begin(), outcomes.end(), [&](const TrialOutcome& outcome) {
    return outcome.result.settings == found.fastest;
  });
  if (kept == outcomes.end()) return;  // none fits: what the first trial showed stands
  model.settings = found.fastest;
  take_outcome(model, *kept);
}

// `first` is what the warm-up showed with the settings asked for; one that failed is not made again.
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
      // Of a model that told nothing of itself yet it is not known whether it takes frames.
      const Bytes held = model.takes_frames || model.task.empty() ? context.frames_held : Bytes{};
      auto outcome = run_trial(worker, WorkerKind::tune, context.options, context.interrupt,
                               context.device_account, held);
      if (!outcome) return forward_error(outcome);
      trial = trial_of(outcome->result, settings);
      if (trial.status == ModelStatus::ok) {
        take_facts(model, *outcome);
        outcome->result.settings = settings;
        outcome->result.memory_series.clear();
        outcomes.push_back(std::move(*outcome));
      }
    }
    context.say(fmt::format("{}: {} → {}", model.name, settings.describe(),
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

// The first backend that can be used takes the model, and tries it.
Result<TrialOutcome> try_backends(PreparedModel& model, WorkerModel& worker,
                                  const std::vector<inference::BackendFile>& backends,
                                  const PreparationContext& context) {
  Result<TrialOutcome> outcome = input_error("no backend was tried");
  for (const inference::BackendFile& backend : backends) {
    model.backend = backend.name;
    model.backend_path = backend.path.string();
    worker = {model.name, model.path, model.backend, model.backend_path, model.forced_task, model.settings};
    outcome =
        run_trial(worker, WorkerKind::setup, context.options, context.interrupt, context.device_account);
    if (!outcome) return outcome;
    // Only a plug-in that could not be loaded leaves the model to the next one: it told no version of its
    // runtime.
    if (outcome->result.status != ModelStatus::failed || !outcome->result.backend_version.empty()) break;
    if (&backend == &backends.back()) break;
    model.passed_over = fmt::format("backend {} cannot be used, so the next was tried: {}", backend.name,
                                    outcome->result.error);
    context.say(fmt::format("{}: {}", model.name, model.passed_over));
  }
  return outcome;
}

// The error is an interrupt; files that cannot be read fail the model.
Status read_fingerprint(PreparedModel& model, const PreparationContext& context) {
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
  if (!set_by_words(model.settings, spec.settings))  // the flags were checked: another version's job
    return failed_model(
        std::move(model),
        {ErrorKind::usage, fmt::format("the settings '{}' are not known", spec.settings), "", ""});
  const auto backends = inference::choose_backends(
      spec.path, spec.backend.empty() ? options.backend : spec.backend, model.settings.device);
  if (!backends) return failed_model(std::move(model), backends.error());

  WorkerModel worker;
  auto outcome = try_backends(model, worker, *backends, context);
  if (!outcome) return forward_error(outcome);
  take_outcome(model, *outcome);
  worker.settings = model.settings;
  worker.outputs = model.outputs;
  // After the trial: of a file whose reading hangs that one knows in which phase it did.
  if (auto read = read_fingerprint(model, context); !read) return forward_error(read);
  // A file that cannot be read lets no settings through.
  const bool is_readable = !model.fingerprint.empty();
  if (options.tune && is_readable && is_worth_tuning(model) && !lacks_its_source(model, options)) {
    auto tuned = tune(std::move(model), std::move(worker), outcome->result, context);
    if (!tuned) return tuned;
    model = std::move(*tuned);
  }
  if (lacks_its_source(model, options))
    return failed_model(std::move(model),
                        {ErrorKind::usage, "it takes frames, so it needs --source", "", ""});
  return model;
}

}  // namespace headroom::bench
