#include "bench/setup_phase.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/run_folder.h"
#include "bench/helper_process.h"
#include "bench/setup_job.h"
#include "bench/trial.h"
#include "bench/tuner.h"
#include "inference/backend.h"
#include "media/media_engine.h"
#include "media/source_json.h"
#include "media/source_scan.h"
#include "sources/host_info.h"

namespace headroom::bench {
namespace fs = std::filesystem;
namespace {

constexpr Nanoseconds kProgressInterval{500'000'000};
constexpr const char* kNameASource = "name one with --source image_dir=DIR, video=FILE or camera=N";

// A step of the setup, which is kept in the log.
void say(const std::string& text) {
  Json event;
  event["event"] = "progress";
  event["text"] = text;
  send_helper_event(event);
}

// A model that will not be measured.
void say_failure(const std::string& text) {
  Json event;
  event["event"] = "failure";
  event["text"] = text;
  send_helper_event(event);
}

// Where a step stands, which the next such event replaces. Also the sign of life that a long scan gives.
void report_frames(std::int64_t frames, const std::string& sequence) {
  static Nanoseconds last;
  const Nanoseconds now = monotonic_now();
  if (now - last < kProgressInterval) return;
  last = now;
  Json event;
  event["event"] = "scanning";
  event["frames"] = frames;
  event["sequence"] = sequence;
  send_helper_event(event);
}

// A folder that takes no files is a wrong --prepared-dir: nothing was measured yet.
tl::unexpected<Error> not_writable(Error error) {
  error.kind = ErrorKind::input;
  error.fix = "make room there, or choose another --prepared-dir";
  return tl::unexpected<Error>(std::move(error));
}

// --- scanning
// -----------------------------------------------------------------------------------------------

Result<Json> scan(const Json& job) {
  auto options = bench_options_from_json(job);
  if (!options) return forward_error(options);
  auto engine = media::load_media_engine();
  if (!engine) return forward_error(engine);
  auto metadata =
      media::scan_source(**engine, *options->source,
                         {options->limit_videos, options->limit_objects, options->max_frames}, report_frames);
  if (!metadata) return forward_error(metadata);
  const fs::path target = metadata_path(options->prepared_dir);
  if (auto written = write_file_atomically(target, to_text(media::to_json(*metadata))); !written)
    return not_writable(written.error());
  return Json::object();
}

Result<SourceMetadata> scan_in_child(const BenchOptions& options, Interrupt& interrupt) {
  std::string note;
  // --workspace bounds the scratch memory of the setup phase: decoding happens here and nowhere else in it.
  auto limit = limits::make_memory_limit("scan", options.workspace, options.limit_mechanism, note);
  if (!limit) return forward_error(limit);
  HelperPlan plan;
  plan.verb = "_scan";
  plan.purpose = "scanning " + options.source->describe();
  plan.limit = limit->get();
  plan.timeout = options.timeout;
  plan.on_event = [](const Json& event) { send_helper_event(event); };
  auto done = run_helper(plan, to_json(options), interrupt);
  if (!done) return forward_error(done);
  auto text = read_file(metadata_path(options.prepared_dir));
  if (!text) return forward_error(text);
  auto document = parse_json(*text, "metadata.json");
  if (!document) return forward_error(document);
  return media::source_from_json(*document);
}

// --- models
// -------------------------------------------------------------------------------------------------

PreparedModel failed_model(PreparedModel model, const Error& error) {
  model.status = ModelStatus::failed;
  model.error = error.sentence();
  return model;
}

Result<PreparedModel> tune(PreparedModel model, WorkerModel worker, const BenchOptions& options,
                           Interrupt& interrupt) {
  const int cores = sources::read_host_info().cpus;
  const auto attempt = [&](const RuntimeSettings& settings) -> Result<TuneTrial> {
    worker.settings = settings;
    auto outcome = run_trial(worker, WorkerKind::tune, options, interrupt);
    if (!outcome) return forward_error(outcome);
    TuneTrial trial;
    trial.settings = settings;
    trial.status = outcome->result.status;
    trial.error = outcome->result.error;
    trial.peak = outcome->result.memory.run_peak;
    if (outcome->result.inference) trial.p50 = outcome->result.inference->p50;
    say(fmt::format("{}: {} → {}", model.name, settings.describe(),
                    trial.p50 ? format_duration(*trial.p50) : trial.error));
    return trial;
  };
  auto found = search_settings(model.settings, cores, attempt);
  if (!found) return forward_error(found);
  model.settings = found->fastest;
  model.smallest_settings = found->smallest;
  model.trials = std::move(found->trials);
  return model;
}

// Errors only when the whole setup must end; a model that fails is named in the result.
Result<PreparedModel> prepare_model(const ModelSpec& spec, const BenchOptions& options,
                                    Interrupt& interrupt) {
  PreparedModel model;
  model.name = spec.name;
  model.path = spec.path;
  model.forced_task = spec.task.empty() ? options.task : spec.task;
  model.settings.threads = options.threads;
  model.settings.device = options.device;
  const auto fingerprint = file_fingerprint(spec.path);
  if (!fingerprint) return failed_model(std::move(model), fingerprint.error());
  model.fingerprint = *fingerprint;
  const auto backend =
      inference::choose_backend(spec.path, spec.backend.empty() ? options.backend : spec.backend);
  if (!backend) return failed_model(std::move(model), backend.error());
  model.backend = backend->name;
  model.backend_path = backend->path.string();

  WorkerModel worker{model.name,         model.path,        model.backend,
                     model.backend_path, model.forced_task, model.settings};
  auto outcome = run_trial(worker, WorkerKind::setup, options, interrupt);
  if (!outcome) return forward_error(outcome);
  model.status = outcome->result.status;
  model.error = outcome->result.error;
  model.backend_version = outcome->result.backend_version;
  model.task = outcome->result.task;
  model.input = outcome->result.input;
  model.takes_frames = outcome->takes_frames;
  model.class_names = outcome->class_names;
  if (model.status != ModelStatus::ok) model.failed_trial = std::move(outcome->result);
  if (model.status == ModelStatus::ok && model.takes_frames && !options.source)
    return failed_model(std::move(model),
                        {ErrorKind::usage, "it takes frames, so it needs --source", "", ""});
  if (model.status != ModelStatus::ok || !options.tune) return model;
  return tune(std::move(model), std::move(worker), options, interrupt);
}

// --- the whole
// ----------------------------------------------------------------------------------------------

Result<Json> set_up(const Json& job) {
  auto options = bench_options_from_json(job);
  if (!options) return forward_error(options);
  auto interrupt = Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  if (auto made = make_folder(options->prepared_dir); !made) return forward_error(made);

  // The scan replaces metadata.json at once: until all is done, nothing here may look prepared.
  std::error_code ignored;
  std::filesystem::remove(setup_path(options->prepared_dir), ignored);
  PreparedData data;
  if (options->source) {
    say("scanning " + options->source->describe());
    auto source = scan_in_child(*options, *interrupt);
    if (!source) return forward_error(source);
    say(fmt::format("{} frames in {} sequences, {} left out", source->total_frames, source->sequences.size(),
                    source->skipped.size()));
    data.source = std::move(*source);
  } else {
    say("no source: models that take no frames run on inputs made from their signatures");
  }

  for (const ModelSpec& spec : options->models) {
    say(fmt::format("trying {}", spec.name));
    auto model = prepare_model(spec, *options, *interrupt);
    if (!model) return forward_error(model);
    if (model->status == ModelStatus::ok)
      say(fmt::format("{}: {} on {} {}, input {}", model->name, model->task, model->backend,
                      model->backend_version, model->input));
    else
      say_failure(fmt::format("{}: {}: {}", model->name, name_of(model->status), model->error));
    data.models.push_back(std::move(*model));
  }
  const auto lacks_frames = [](const PreparedModel& model) { return model.takes_frames; };
  if (!data.source && std::all_of(data.models.begin(), data.models.end(), lacks_frames))
    return usage_error("no source was given", "every model given takes frames", kNameASource);
  data.headroom_version = HEADROOM_VERSION;
  data.created_at = timestamp_now();
  data.host = this_host();
  data.max_frames = options->max_frames;
  data.limit_videos = options->limit_videos;
  data.limit_objects = options->limit_objects;
  data.image_size = options->image_size;
  data.threads = options->threads;
  data.device = options->device;
  data.tuned = options->tune;
  data.memory_limit = options->memory_limit;
  data.limit_mechanism = options->limit_mechanism;
  data.timeout = options->timeout;
  if (auto written = write_prepared_data(options->prepared_dir, data); !written)
    return not_writable(written.error());
  return Json::object();
}

}  // namespace

Result<PreparedData> run_setup_phase(const BenchOptions& options, Interrupt& interrupt,
                                     const SetupProgress& progress) {
  HelperPlan plan;
  plan.verb = "_setup";
  plan.purpose = "the setup phase";
  // Its own children are watched with --timeout each; this one is only the net below them.
  plan.timeout = Nanoseconds{options.timeout.count * 12};
  plan.on_event = [&](const Json& event) {
    if (get_text(event, "event") == "scanning")
      progress.frames_scanned(get_integer(event, "frames").value_or(0), get_text(event, "sequence"));
    else if (get_text(event, "event") == "failure")
      progress.failure(get_text(event, "text"));
    else
      progress.step(get_text(event, "text"));
  };
  auto done = run_helper(plan, to_json(options), interrupt);
  if (!done) return forward_error(done);
  return read_prepared_data(options.prepared_dir);
}

int run_setup_process() { return serve_helper(set_up); }
int run_scan_process() { return serve_helper(scan); }

}  // namespace headroom::bench
