// The run as named steps. After each of them report.json is on disk, marked incomplete until the last: a
// conductor that is killed, or a disk that fills up, leaves what was measured so far.
#include "bench/run_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/run_folder.h"
#include "base/terminal.h"
#include "base/text.h"
#include "bench/annotate.h"
#include "bench/extra_runs.h"
#include "bench/gpu_limit.h"
#include "bench/helper_process.h"
#include "bench/inference_phase.h"
#include "bench/interrupt.h"
#include "bench/layer_phase.h"
#include "bench/metrics_recorder.h"
#include "bench/run_reports.h"
#include "bench/setup_phase.h"
#include "bench/setup_results.h"
#include "limits/memory_limit.h"
#include "report/outcome.h"
#include "report/report_json.h"
#include "report/views.h"
#include "report/words.h"
#include "sources/host_info.h"
#include "sources/nvml_source.h"

namespace headroom::bench {
namespace {

constexpr int kExitInterrupted = 130;  // as a shell reports a command ended by Ctrl-C

struct Run {
  Run(const BenchOptions& asked, Interrupt listener, RunFolder made)
      : options(asked),
        interrupt(std::move(listener)),
        folder(std::move(made)),
        metrics(folder.path / "metrics.jsonl") {}

  const BenchOptions& options;
  Interrupt interrupt;
  RunFolder folder;
  MetricsRecorder metrics;
  std::optional<trace::DeviceAccount> device_account;  // of GPU memory; absent if no model runs on a GPU
  BenchResult result;
  PreparedData prepared;
  ProgressLine progress_line;
  Nanoseconds measuring_since;
  std::size_t measuring = 0;  // index of the model under way in result.models
  bool interrupted = false;
  bool disk_warned = false;
  bool extra_failed = false;            // a run that was asked for besides did not take place
  std::filesystem::path metadata_path;  // what the decoders read: the run's own copy
};

void step(Run& run, const std::string& text) {
  run.progress_line.clear();
  if (run.options.quiet)
    log::debug("{}", text);
  else
    log::info("{}", text);
}

// A full disk is named once, at once, and ends nothing: the figures are still printed at the end.
void note_disk_problem(Run& run, const Status& written) {
  if (written || std::exchange(run.disk_warned, true)) return;
  run.progress_line.clear();
  Error error = written.error();
  error.fix = "make room there, or choose another --output-dir";
  log::warning("the run goes on and its figures will be printed, but {}", error.sentence());
}

void save_progress(Run& run) { note_disk_problem(run, write_report_json(run.result, run.folder.path)); }

// All reports, so that a run that is killed now leaves what it has measured, as readable as a whole one.
void save_reports(Run& run) {
  run.result.system = run.metrics.summary();
  auto written = write_all_reports(run.result, run.folder.path);
  if (auto footprints = write_footprints(run.result, run.prepared, run.folder.path); written)
    written = footprints;
  note_disk_problem(run, written);
}

Status prove_limit(Run& run) {
  if (!run.options.memory_limit) return {};
  step(run, fmt::format("probing what enforces {}", format_bytes(*run.options.memory_limit)));
  auto limit = limits::probe_limit(*run.options.memory_limit, run.options.limit_mechanism);
  if (!limit && limit.error().kind == ErrorKind::usage) return forward_error(limit);
  if (!limit) {
    // The run goes on: a limit that could not be proved is monitored, and the report says so.
    run.result.limit = Limit{*run.options.memory_limit,
                             LimitType::unavailable,
                             LimitMechanism::none,
                             {},
                             limit.error().sentence()};
    run.result.warnings.push_back(limit.error().sentence());
  } else {
    run.result.limit = std::move(*limit);
  }
  step(run, fmt::format("the limit is {} ({})", name_of(run.result.limit->type),
                        name_of(run.result.limit->mechanism)));
  run.metrics.restart_rates();
  return {};
}

Status prove_gpu_limit(Run& run) {
  auto account = open_device_account(run.options);
  if (!account) return forward_error(account);
  if (!*account) return {};
  run.device_account.emplace(std::move(**account));
  if (run.options.gpu_memory_limit.empty()) return {};
  step(run, fmt::format("probing what enforces {} of GPU memory", run.options.gpu_memory_limit));
  Limit limit = probe_gpu_limit(run.device_account->limits(), cuda_devices(run.options), run.interrupt);
  step(run, fmt::format("the limit of GPU memory is {}{}", name_of(limit.type),
                        limit.note.empty() ? "" : ": " + limit.note));
  if (limit.type != LimitType::hard && !limit.note.empty())
    run.result.warnings.push_back("the limit of GPU memory: " + limit.note);
  run.result.gpu_limit = std::move(limit);
  return {};
}

void keep_wanted_models(Run& run) {
  std::erase_if(run.prepared.models, [&](const PreparedModel& model) {
    const auto wanted = [&](const ModelSpec& spec) { return spec.name == model.name; };
    return std::none_of(run.options.models.begin(), run.options.models.end(), wanted);
  });
}

// The run's own copy, which must be of the source that was prepared: another run may have scanned its own
// into the same folder meanwhile.
Status keep_metadata(Run& run) {
  const std::filesystem::path prepared = metadata_path(run.options.prepared_dir);
  if (::access(prepared.c_str(), R_OK) != 0)
    return input_error(fmt::format("the prepared data in {} cannot be used", run.options.prepared_dir),
                       fmt::format("its metadata.json cannot be read: {}", errno_text(errno)),
                       "run again without --skip-setup to prepare it anew");
  run.metadata_path = run.folder.path / "metadata.json";
  std::error_code code;
  std::filesystem::copy_file(prepared, run.metadata_path, code);
  if (code) {  // a full disk must not end the run; the prepared file serves as long as nobody replaces it
    std::error_code ignored;
    std::filesystem::remove(run.metadata_path, ignored);
    note_disk_problem(run,
                      failure(fmt::format("cannot write {}", run.metadata_path.string()), code.message()));
    run.metadata_path = prepared;
  }
  const SourceMetadata& source = *run.prepared.source;
  if (source.fingerprint.empty() || file_holds(run.metadata_path, source.fingerprint)) return {};
  return usage_error(fmt::format("the prepared data in {} cannot be used", run.options.prepared_dir),
                     "its metadata.json is of another source than its setup.json",
                     "run again without --skip-setup, with a --prepared-dir of its own");
}

// While the setup phase is at work the report says what was found by now.
void keep_setup_result(Run& run, const PreparedModel& model) {
  for (ModelResult& result : run.result.models)
    if (result.name == model.name) result = not_yet_measured(model);
  save_progress(run);
}

Status prepare(Run& run) {
  const Nanoseconds started = monotonic_now();
  if (run.options.skip_setup) {
    auto prepared = read_prepared_data(run.options.prepared_dir);
    if (!prepared) return forward_error(prepared);
    if (auto problem = why_not_usable(*prepared, run.options))
      return tl::unexpected<Error>(std::move(*problem));
    run.prepared = std::move(*prepared);
    keep_wanted_models(run);
  } else {
    SetupProgress progress;
    progress.step = [&](const std::string& text) { step(run, text); };
    progress.failure = [&](const std::string& text) {
      run.progress_line.clear();
      log::error("{}", text);
    };
    progress.frames_scanned = [&](std::int64_t frames, const std::string& sequence) {
      if (run.options.quiet) return;
      run.progress_line.update("scanning", -1, fmt::format("{} frames, {}", frames, sequence));
    };
    progress.model = [&](const PreparedModel& model) { keep_setup_result(run, model); };
    run.metadata_path = run.folder.path / "metadata.json";
    auto prepared = run_setup_phase(run.options, run.metadata_path, run.interrupt, progress);
    if (!prepared) return forward_error(prepared);
    run.prepared = std::move(*prepared);
  }
  run.result.setup_time = monotonic_now() - started;
  run.result.source = run.prepared.source;
  if (!run.prepared.source) return {};
  for (const SkippedItem& item : run.prepared.source->skipped)
    log::warning("{} was left out: {}", item.name, item.reason);
  const bool lacks_own = run.options.skip_setup || ::access(run.metadata_path.c_str(), R_OK) != 0;
  return lacks_own ? keep_metadata(run) : Status{};
}

void add_skipped_slots(Run& run) {
  for (const std::string& slot : run.options.skipped_slots) {
    ModelResult skipped;
    skipped.name = slot;
    skipped.status = ModelStatus::skipped;
    skipped.error = "no path was given for this slot";
    step(run, fmt::format("{}: skipped, no path was given for this slot", slot));
    run.result.models.push_back(std::move(skipped));
  }
}

void set_file_size(ModelResult& result) {
  std::error_code code;
  const auto size = std::filesystem::file_size(result.path, code);
  if (!code) result.file_size = Bytes{static_cast<std::int64_t>(size)};
}

void say_result(Run& run, const ModelResult& model) {
  if (model.status == ModelStatus::ok && model.inference)
    step(run, fmt::format("{}: {:.1f} FPS, P50 {}, run peak {}", model.name, model.fps.value_or(0),
                          format_duration(model.inference->p50),
                          model.memory.run_peak ? format_bytes(*model.memory.run_peak) : "unknown"));
  else
    log::error("{}: {}{}: {}", model.name, report::words_for(model.status),
               model.died_in ? fmt::format(" {}", report::activity_after(*model.died_in)) : "", model.error);
}

// Before a model's pictures are drawn: they may take the room that its figures need. After the last model of
// a run nothing can change a figure any more, so the report is whole then.
void save_figures(Run& run, bool is_last) {
  run.result.system = run.metrics.summary();
  run.result.inference_time = monotonic_now() - run.measuring_since;
  run.result.complete = is_last;
  save_progress(run);
  run.result.complete = false;
}

Status measure_model(Run& run, const BenchContext& context, const PreparedModel& model, ModelResult& result,
                     bool is_last) {
  result.status = ModelStatus::failed;
  result.error = report::kCutShort;
  save_progress(run);
  auto measured = measure_alone(context, model);
  if (!measured) {  // it could not even be started; the others may
    result.status = ModelStatus::failed;
    result.error = measured.error().sentence();
    return {};
  }
  result = std::move(measured->result);
  run.result.frames_held_peak = std::max(run.result.frames_held_peak, measured->frames_held);
  run.interrupted = measured->interrupted;
  if (run.interrupted) {
    result.error = report::kCutShort;
    std::error_code ignored;
    std::filesystem::remove(measured->samples_path, ignored);
    return {};
  }
  set_file_size(result);
  save_figures(run, is_last);
  auto drawn = draw_samples(model.name, measured->samples_path, measured->class_names, run.metadata_path,
                            run.folder.path, run.interrupt);
  if (drawn) {
    result.annotated_images = std::move(drawn->images);
    if (!drawn->problem.empty()) result.warnings.push_back(std::move(drawn->problem));
  } else if (was_interrupted(drawn.error())) {
    run.interrupted = true;
  } else {
    result.warnings.push_back(drawn.error().sentence());
  }
  return {};
}

Status measure_models(Run& run, const BenchContext& context) {
  std::vector<ModelResult>& results = run.result.models;
  const std::size_t first = results.size();
  for (const PreparedModel& model : run.prepared.models) {
    results.push_back(run.options.skip_inference ? result_of_setup(model) : not_yet_measured(model));
    set_file_size(results.back());
  }
  add_skipped_slots(run);
  save_reports(run);
  if (run.options.skip_inference) return {};
  const bool more_follows = run.options.parallel || run.options.pipeline || run.options.layers;
  for (std::size_t i = 0; i < run.prepared.models.size() && !run.interrupted; ++i) {
    const PreparedModel& model = run.prepared.models[i];
    const bool is_last = !more_follows && i + 1 == run.prepared.models.size();
    run.measuring = first + i;
    if (model.status == ModelStatus::ok)
      if (auto measured = measure_model(run, context, model, results[first + i], is_last); !measured)
        return measured;
    set_file_size(results[first + i]);
    // What failed in the setup was said there; prepared data that is used again has it to say still.
    if (model.status == ModelStatus::ok || run.options.skip_setup) say_result(run, results[first + i]);
    if (!is_last) save_reports(run);  // finish() comes next
  }
  return {};
}

// The model under way, as far as it is. Its warnings and status are those of a run that was cut short.
void save_partial_result(Run& run, ModelResult partial) {
  partial.status = ModelStatus::failed;
  partial.error = report::kCutShort;
  run.result.models[run.measuring] = std::move(partial);
  set_file_size(run.result.models[run.measuring]);
  save_progress(run);
}

bool any_model_failed(const BenchResult& result) {
  const auto failed = [](const ModelResult& model) {
    return model.status != ModelStatus::ok && model.status != ModelStatus::skipped;
  };
  if (std::any_of(result.models.begin(), result.models.end(), failed)) return true;
  if (result.parallel &&
      std::any_of(result.parallel->together.begin(), result.parallel->together.end(), failed))
    return true;
  return result.pipeline && result.pipeline->status != ModelStatus::ok;
}

bool limit_violated(const BenchResult& result) {
  const auto gpu_over = [](const std::vector<GpuMemory>& gpus) {
    return std::any_of(gpus.begin(), gpus.end(),
                       [](const GpuMemory& gpu) { return gpu.within_limit == false; });
  };
  const auto over = [&](const ModelResult& model) {
    return model.memory.within_limit == false || gpu_over(model.gpu_memory);
  };
  return std::any_of(result.models.begin(), result.models.end(), over) ||
         (result.parallel && !result.parallel->within_limit) ||
         (result.pipeline &&
          (result.pipeline->memory.within_limit == false || gpu_over(result.pipeline->gpu_memory)));
}

// What a person does next: after a setup alone, the measurement that it was for.
std::string next_command(const Run& run) {
  constexpr std::string_view kSetupOnly = "--skip-inference";
  std::string command = run.result.command;
  const std::size_t at = command.find(kSetupOnly);
  if (!run.options.skip_inference || at == std::string::npos)
    return fmt::format("headroom report {}", shell_word(run.folder.path.string()));
  return command.replace(at, kSetupOnly.size(), "--skip-setup");
}

Status finish(Run& run) {
  run.result.complete = !run.interrupted;
  run.result.system = run.metrics.summary();
  auto written = write_all_reports(run.result, run.folder.path);
  if (auto footprints = write_footprints(run.result, run.prepared, run.folder.path); written && !footprints)
    written = footprints;
  run.progress_line.clear();
  if (run.options.json) {
    print_output(to_text(report::to_json(run.result)));
  } else {
    const bool color = use_color(run.options.color, STDOUT_FILENO);
    print_output(report::to_terminal(run.result, color, terminal_width(STDOUT_FILENO)));
  }
  if (written && !run.options.quiet && !run.options.json)
    print_output(fmt::format("\nThe report is {}\nNext: {}\n", (run.folder.path / "report.html").string(),
                             next_command(run)));
  return written;
}

int exit_code(const Run& run) {
  if (run.interrupted) return kExitInterrupted;
  if (any_model_failed(run.result) || run.extra_failed) return 1;
  if (run.options.strict && limit_violated(run.result)) return 1;
  return 0;
}

Status check_options(const BenchOptions& options) {
  const bool shares_a_camera = options.parallel && options.models.size() > 1 && options.source &&
                               options.source->kind == SourceKind::camera;
  if (shares_a_camera)
    return usage_error("--parallel cannot read from a camera", "each model would have to open it",
                       "record a video and give it by --source video=FILE, or use --pipeline");
  if (!options.gpu_memory_limit.empty() && cuda_devices(options).empty())
    return usage_error("--gpu-mem-limit bounds nothing here", "no model runs on a GPU",
                       "give --device cuda:N too, or --mem-limit for the machine's memory");
  return options.layers ? check_layer_tracing() : Status{};
}

}  // namespace

Result<int> run_bench(const BenchOptions& options, const std::string& command,
                      const std::vector<std::string>& warnings) {
  if (auto sound = check_options(options); !sound) return forward_error(sound);
  auto interrupt = Interrupt::listen();
  if (!interrupt) return forward_error(interrupt);
  auto folder = create_run_folder(options.output_dir);
  if (!folder) return forward_error(folder);
  if (auto opened = log::open_file(folder->path / "run.log"); !opened) return forward_error(opened);

  Run run(options, std::move(*interrupt), std::move(*folder));
  run.result.run_name = run.folder.name;
  run.result.started_at = run.folder.started_at;
  run.result.command = command;
  run.result.host = sources::read_host_info();
  sources::read_gpu_info(run.result.host);
  run.result.image_size = options.image_size;
  run.result.confidence = options.confidence;
  run.result.iou = options.iou;
  run.result.options = options;
  log::debug("command: {}", command);
  for (const std::string& warning : warnings) log::warning("{}", warning);  // now that there is a log
  run.result.warnings = warnings;

  auto proved = prove_limit(run);
  if (proved) proved = prove_gpu_limit(run);
  if (!proved) {
    std::error_code ignored;
    std::filesystem::remove_all(run.folder.path, ignored);  // wrong use: nothing was begun
    return forward_error(proved);
  }
  // From here on the report says what the limit is worth, and which models were to be measured.
  run.result.models = models_not_reached(options);
  save_reports(run);
  if (auto prepared = prepare(run); !prepared) {
    run.interrupted = was_interrupted(prepared.error());
    const ErrorKind kind = prepared.error().kind;
    if (!run.interrupted && (kind == ErrorKind::usage || kind == ErrorKind::input)) {
      std::error_code ignored;  // wrong use, and nothing was measured: no folder is left to wonder about
      std::filesystem::remove_all(run.folder.path, ignored);
      return forward_error(prepared);
    }
    if (!run.interrupted) run.result.warnings.push_back(prepared.error().sentence());
    save_reports(run);
    run.progress_line.clear();
    if (!run.interrupted) {
      log::warning("the setup failed; the report of what there is lies in {}", run.folder.path.string());
      return forward_error(prepared);
    }
    log::warning("interrupted during the setup; what there is lies in {}", run.folder.path.string());
    return kExitInterrupted;
  }
  // From here on every model has been tried once; those that failed will not be measured.
  run.result.models.clear();
  run.measuring_since = monotonic_now();
  const BenchContext context{options,
                             run.prepared,
                             run.metadata_path.string(),
                             run.folder.path,
                             run.device_account ? &*run.device_account : nullptr,
                             run.interrupt,
                             run.metrics,
                             [&](const std::string& label, double fraction, const std::string& detail) {
                               if (!options.quiet) run.progress_line.update(label, fraction, detail);
                             },
                             [&](ModelResult partial) { save_partial_result(run, std::move(partial)); }};
  if (auto measured = measure_models(run, context); !measured) {
    save_progress(run);
    return forward_error(measured);
  }
  if (!run.options.skip_inference && !run.interrupted) {
    const ExtraRuns extras{run.folder.path, [&](const std::string& text) { step(run, text); },
                           [&] { save_progress(run); }};
    const ExtraOutcome outcome = measure_extras(extras, context, run.result);
    run.interrupted = outcome.interrupted;
    run.extra_failed = outcome.failed;
  }
  run.result.inference_time = monotonic_now() - run.measuring_since;
  // Everything is measured; what is left cannot change a figure.
  if (auto finished = finish(run); !finished) {
    if (run.disk_warned) return std::max(1, exit_code(run));  // it was said when it was first met
    return forward_error(finished);
  }
  return exit_code(run);
}

}  // namespace headroom::bench
