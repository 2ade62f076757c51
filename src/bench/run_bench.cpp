// The run as named steps. After each of them report.json is on disk, marked incomplete until the last: a
// conductor that is killed, or a disk that fills up, leaves what was measured so far.
#include "bench/run_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/json.h"
#include "base/log.h"
#include "base/terminal.h"
#include "bench/annotate.h"
#include "bench/inference_phase.h"
#include "bench/interrupt.h"
#include "bench/metrics_recorder.h"
#include "bench/run_folder.h"
#include "bench/run_reports.h"
#include "bench/setup_phase.h"
#include "limits/memory_limit.h"
#include "report/report_json.h"
#include "report/views.h"
#include "report/words.h"
#include "sources/host_info.h"

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
  BenchResult result;
  PreparedData prepared;
  ProgressLine progress_line;
  bool interrupted = false;
  bool disk_warned = false;
};

void step(Run& run, const std::string& text) {
  run.progress_line.clear();
  if (run.options.quiet)
    log::debug("{}", text);
  else
    log::info("{}", text);
}

// A full disk is named once and ends nothing: the figures are still printed at the end.
void save_progress(Run& run) {
  if (auto written = write_report_json(run.result, run.folder.path); !written && !run.disk_warned) {
    run.disk_warned = true;
    log::error("{}", written.error().sentence());
  }
}

void prove_limit(Run& run) {
  if (!run.options.memory_limit) return;
  step(run, fmt::format("probing what enforces {}", format_bytes(*run.options.memory_limit)));
  auto limit = limits::probe_limit(*run.options.memory_limit, run.options.limit_mechanism);
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
}

Status prepare(Run& run) {
  const Nanoseconds started = monotonic_now();
  if (run.options.skip_setup) {
    auto prepared = read_prepared_data(run.options.prepared_dir);
    if (!prepared) return forward_error(prepared);
    if (auto problem = why_not_usable(*prepared, run.options))
      return tl::unexpected<Error>(std::move(*problem));
    run.prepared = std::move(*prepared);
  } else {
    SetupProgress progress;
    progress.step = [&](const std::string& text) { step(run, text); };
    progress.frames_scanned = [&](std::int64_t frames, const std::string& sequence) {
      if (run.options.quiet) return;
      run.progress_line.update("scanning", -1, fmt::format("{} frames, {}", frames, sequence));
    };
    auto prepared = run_setup_phase(run.options, run.interrupt, progress);
    if (!prepared) return forward_error(prepared);
    run.prepared = std::move(*prepared);
  }
  run.result.setup_time = monotonic_now() - started;
  run.result.source = run.prepared.source;
  for (const SkippedItem& item : run.prepared.source.skipped)
    log::warning("{} was left out: {}", item.name, item.reason);
  return {};
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

// A model that did not pass the setup phase is in the report with what happened there.
ModelResult result_of_setup(const PreparedModel& model) {
  ModelResult result;
  result.name = model.name;
  result.path = model.path;
  result.backend = model.backend;
  result.backend_version = model.backend_version;
  result.task = model.task;
  result.input = model.input;
  result.status = model.status;
  result.error = model.error;
  result.died_in = model.died_in;
  result.settings = model.settings;
  return result;
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

Status measure_models(Run& run, const BenchContext& context) {
  for (const PreparedModel& model : run.prepared.models) {
    const auto wanted = [&](const ModelSpec& spec) { return spec.name == model.name; };
    if (std::none_of(run.options.models.begin(), run.options.models.end(), wanted)) continue;
    ModelResult result = result_of_setup(model);
    if (model.status == ModelStatus::ok && !run.options.skip_inference) {
      auto measured = measure_alone(context, model);
      if (!measured) return forward_error(measured);
      result = std::move(measured->result);
      run.result.frames_held_peak = std::max(run.result.frames_held_peak, measured->frames_held);
      run.interrupted = measured->interrupted;
      if (!run.interrupted) {
        auto drawn = draw_samples(model.name, measured->samples, measured->class_names,
                                  metadata_path(run.options.prepared_dir), run.folder.path, run.interrupt);
        if (drawn)
          result.annotated_images = std::move(*drawn);
        else
          result.warnings.push_back(drawn.error().sentence());
      }
    }
    set_file_size(result);
    if (!run.options.skip_inference) say_result(run, result);
    run.result.models.push_back(std::move(result));
    run.result.system = run.metrics.summary();
    save_progress(run);
    if (run.interrupted) return {};
  }
  return {};
}

// The extra runs. One that fails or is stopped leaves the figures of the single models unharmed.
void measure_extras(Run& run, const BenchContext& context) {
  if (run.options.skip_inference || run.interrupted) return;
  const auto note_failure = [&](const Error& error) {
    run.interrupted = run.interrupted || error.why == "interrupted";
    run.result.warnings.push_back(error.sentence());
  };
  if (run.options.parallel) {
    step(run, "running all models at once");
    auto together = measure_together(context, run.result.models);
    if (together)
      run.result.parallel = std::move(*together);
    else
      note_failure(together.error());
    save_progress(run);
  }
  if (run.options.pipeline && !run.interrupted) {
    step(run, "running the full pipeline in one process");
    auto pipeline = measure_pipeline(context);
    if (pipeline)
      run.result.pipeline = std::move(*pipeline);
    else
      note_failure(pipeline.error());
    save_progress(run);
  }
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
  const auto over = [](const ModelResult& model) { return model.memory.within_limit == false; };
  return std::any_of(result.models.begin(), result.models.end(), over) ||
         (result.parallel && !result.parallel->within_limit);
}

Status finish(Run& run) {
  run.result.complete = !run.interrupted;
  run.result.system = run.metrics.summary();
  auto written = write_all_reports(run.result, run.folder.path);
  if (auto footprints = write_footprints(run.result, run.prepared, run.folder.path); written && !footprints)
    written = footprints;
  run.progress_line.clear();
  if (run.options.json) {
    fmt::print("{}", to_text(report::to_json(run.result)));
  } else {
    const bool color = use_color(run.options.color, STDOUT_FILENO);
    fmt::print("{}", report::to_terminal(run.result, color, terminal_width(STDOUT_FILENO)));
  }
  if (written && !run.options.quiet && !run.options.json)
    fmt::print("\nThe report is {}\nNext: headroom report {}\n", (run.folder.path / "report.html").string(),
               run.folder.path.string());
  return written;
}

int exit_code(const Run& run) {
  if (run.interrupted) return kExitInterrupted;
  if (any_model_failed(run.result)) return 1;
  if (run.options.strict && limit_violated(run.result)) return 1;
  return 0;
}

}  // namespace

Result<int> run_bench(const BenchOptions& options, const std::string& command) {
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
  run.result.image_size = options.image_size;
  run.result.confidence = options.confidence;
  run.result.iou = options.iou;
  log::debug("command: {}", command);

  prove_limit(run);
  // From here on the report says what the limit is worth.
  if (auto prepared = prepare(run); !prepared) {
    save_progress(run);
    if (prepared.error().why == "interrupted") return kExitInterrupted;
    return forward_error(prepared);
  }
  // From here on every model has been tried once; those that failed will not be measured.
  add_skipped_slots(run);
  const Nanoseconds started = monotonic_now();
  const BenchContext context{options, run.prepared, run.interrupt, run.metrics,
                             [&](const std::string& label, double fraction, const std::string& detail) {
                               if (!options.quiet) run.progress_line.update(label, fraction, detail);
                             }};
  if (auto measured = measure_models(run, context); !measured) {
    save_progress(run);
    return forward_error(measured);
  }
  measure_extras(run, context);
  run.result.inference_time = monotonic_now() - started;
  // Everything is measured; what is left cannot change a figure.
  if (auto finished = finish(run); !finished) return forward_error(finished);
  return exit_code(run);
}

}  // namespace headroom::bench
