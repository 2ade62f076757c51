#include "bench/conductor/phases.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "bench/annotated_samples.h"
#include "bench/conductor/child_process.h"
#include "bench/conductor/setup_phase.h"
#include "bench/vos/scores.h"
#include "bench/vos/videos.h"
#include "report/run/run_words.h"
#include "report/words.h"

namespace headroom::bench {
namespace {

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

void log_result(Run& run, const ModelResult& model) {
  if (model.status == ModelStatus::ok && model.inference)
    step(run, fmt::format("{}: {:.1f} FPS, P50 {}, run peak {}", model.name, model.fps.value_or(0),
                          format_duration(model.inference->p50),
                          model.memory.run_peak ? format_bytes(*model.memory.run_peak) : "unknown"));
  else
    log::error("{}: {}{}: {}", model.name, report::words_for(model.status),
               model.died_in ? fmt::format(" {}", report::activity_after(*model.died_in)) : "", model.error);
  if (model.status == ModelStatus::ok && report::exceeded_limit(model))
    log::error("{}", report::describe_excess(model, run.result.limit));
}

// Saves the figures before the model's images are drawn, because the images may fill the disk. After the last
// model no figure changes, so the report is marked complete.
void save_figures(Run& run, bool is_last) {
  run.result.system = run.metrics.summary();
  run.result.inference_time = monotonic_now() - run.measuring_since;
  run.result.complete = is_last;
  save_progress(run);
  run.result.complete = false;
}

// For a model of --task vos that failed: how much of the data set its figures are of.
void warn_of_unfinished(const Run& run, ModelResult& result) {
  if (result.status == ModelStatus::ok || !result.vos || result.vos->clips.empty()) return;
  const VosResult& vos = *result.vos;
  const bool is_alone = vos.objects == VosObjects::alone;
  std::int64_t all = 0;
  for (const SourceSequence& sequence : run.prepared.source->sequences)
    if (std::ranges::find(vos.left_out, sequence.name, &VosLeftOut::video) == vos.left_out.end())
      all += is_alone ? std::ssize(sequence.objects) : 1;
  const std::int64_t finished = std::ssize(vos.clips);
  if (finished >= all) return;
  result.warnings.push_back(fmt::format("it finished {} of {}; scores and figures of clips are of {}",
                                        finished, report::counted(all, is_alone ? "object" : "video"),
                                        finished == 1 ? "this one" : "these"));
}

// Scores the masks of --task vos and draws some. Clips that were finished before the worker failed keep their
// scores.
void add_accuracy(Run& run, const PreparedModel& model, ModelResult& result) {
  const std::filesystem::path masks = masks_path(run, model.name);
  // Files of other projects make no masks.
  if (!result.vos || result.vos->clips.empty() || !result.vos->label.empty()) {
    std::error_code ignored;
    std::filesystem::remove(masks, ignored);
    return;
  }
  ScoreJob job{model.name, videos_path(run.folder.path).string(), masks.string(), run.folder.path.string()};
  if (run.prepared.vos) job.layout = run.prepared.vos->layout;
  job.max_frames = run.options.max_frames;
  job.pictures = run.options.sample_images;
  job.finished = finished_clips(*result.vos);
  auto scores = score_in_child(job, run.options.timeout, run.interrupt);
  if (scores) {
    add_scores(*result.vos, std::move(scores->scores));
    result.annotated_images = std::move(scores->images);
    if (!scores->problem.empty()) result.warnings.push_back(std::move(scores->problem));
  } else if (was_interrupted(scores.error())) {
    run.interrupted = true;
  } else {
    result.warnings.push_back(scores.error().sentence());
  }
}

void measure_model(Run& run, const PreparedModel& model, ModelResult& result, bool is_last) {
  result.status = ModelStatus::failed;
  result.error = report::kCutShort;
  save_progress(run);
  auto measured = measure_alone(run, model);
  if (!measured) {  // this model could not be started; the next ones may
    result.status = ModelStatus::failed;
    result.error = measured.error().sentence();
    return;
  }
  result = std::move(measured->result);
  run.result.frames_held_peak = std::max(run.result.frames_held_peak, measured->frames_held);
  run.interrupted = measured->interrupted;
  if (run.interrupted) {
    result.error = report::kCutShort;
    std::error_code ignored;
    std::filesystem::remove(measured->samples_path, ignored);
    std::filesystem::remove(masks_path(run, model.name), ignored);
    return;
  }
  save_figures(run, is_last);
  note_disk_problem(run, write_frame_times(model.name, measured->frames, run.folder.path));
  if (run.options.vos) {
    warn_of_unfinished(run, result);
    return add_accuracy(run, model, result);
  }
  auto drawn = draw_samples(model.name, measured->samples_path, model.class_names, run.metadata_path,
                            run.folder.path, run.interrupt);
  if (drawn) {
    result.annotated_images = std::move(drawn->images);
    if (!drawn->problem.empty()) result.warnings.push_back(std::move(drawn->problem));
  } else if (was_interrupted(drawn.error())) {
    run.interrupted = true;
  } else {
    result.warnings.push_back(drawn.error().sentence());
  }
}

}  // namespace

void measure_models(Run& run) {
  std::vector<ModelResult>& results = run.result.models;
  const std::size_t first = results.size();
  for (const PreparedModel& model : run.prepared.models)
    results.push_back(run.options.skip_inference ? result_of_setup(model) : not_yet_measured(model));
  add_skipped_slots(run);
  save_reports(run);
  if (run.options.skip_inference) return;
  const bool more_follows =
      run.options.parallel || run.options.pipeline || run.options.pool || run.options.layers;
  for (std::size_t i = 0; i < run.prepared.models.size() && !run.interrupted; ++i) {
    const PreparedModel& model = run.prepared.models[i];
    const bool is_last = !more_follows && i + 1 == run.prepared.models.size();
    run.measuring = first + i;
    if (model.status == ModelStatus::ok) measure_model(run, model, results[first + i], is_last);
    // The setup has already logged its failures. With --skip-setup there was no setup, so they are logged
    // here.
    if (model.status == ModelStatus::ok || run.options.skip_setup) log_result(run, results[first + i]);
    if (!is_last) save_reports(run);  // after the last model, finish() saves
  }
}

namespace {

bool was_stopped(const Run& run) { return run.interrupt.signal_number() != 0; }

void warn(Run& run, std::string warning) { run.result.warnings.push_back(std::move(warning)); }

void mark_if_cut_short(const Run& run, ModelStatus status, std::string& error) {
  if (was_stopped(run) && status != ModelStatus::ok) error = report::kCutShort;
}

void finish_step(Run& run, const std::string& while_what) {
  run.interrupted = was_stopped(run);
  if (auto throttling = run.metrics.take_throttling(while_what)) warn(run, std::move(*throttling));
  save_progress(run);
}

void note_failure(Run& run, const Error& error) {
  run.interrupted = was_interrupted(error) || was_stopped(run);
  run.extra_failed = true;
  warn(run, error.sentence());
  log::error("{}", error.sentence());
  save_progress(run);
}

// The report is saved before each extra run starts. If the conductor is killed, the report shows that the run
// was requested but not reached.
void measure_parallel(Run& run) {
  step(run, "running all models at once");
  run.result.parallel.emplace();
  for (const PreparedModel& model : run.prepared.models) {
    if (model.status != ModelStatus::ok) continue;
    ModelResult& stub = run.result.parallel->together.emplace_back();
    stub.name = model.name;
    stub.error = report::kNotReached;
  }
  save_progress(run);
  auto parallel = measure_together(run, run.result.models);
  if (!parallel) {
    run.result.parallel.reset();
    return note_failure(run, parallel.error());
  }
  run.result.frames_held_peak = std::max(run.result.frames_held_peak, parallel->frames_held);
  std::string dead;
  for (ModelResult& model : parallel->together) {
    mark_if_cut_short(run, model.status, model.error);
    for (const std::string& warning : model.warnings)
      warn(run, fmt::format("all at once, {}: {}", model.name, warning));
    if (model.status != ModelStatus::ok) dead += (dead.empty() ? "" : ", ") + model.name;
  }
  if (!dead.empty() && !was_stopped(run))
    warn(run, fmt::format("all at once, {} ended early: from then on fewer models shared the device, so the "
                          "others' figures do not show all models together",
                          dead));
  if (parallel->within_limit == false && run.result.limit)
    log::error("all at once: the models exceeded the limit of {}", format_bytes(run.result.limit->bytes));
  run.result.parallel = std::move(*parallel);
  finish_step(run, "all models ran at once");
}

// A run of all models in one process: the pipeline or the pool. `result` is its entry in the report.
template <class SharedResult, class Measure>
void measure_in_one_process(Run& run, const std::string& name, std::optional<SharedResult>& result,
                            const Measure& measure) {
  result->error = report::kNotReached;
  save_progress(run);
  std::vector<std::string> warnings;
  auto measured = measure(warnings);
  if (!measured) {
    result.reset();
    return note_failure(run, measured.error());
  }
  mark_if_cut_short(run, measured->status, measured->error);
  run.result.frames_held_peak = std::max(run.result.frames_held_peak, measured->frames_held);
  for (const std::string& warning : warnings) warn(run, name + ": " + warning);
  if (measured->memory.within_limit == false && run.result.limit)
    log::error("{}: exceeded the limit of {}", name, format_bytes(run.result.limit->bytes));
  result = std::move(*measured);
  finish_step(run, fmt::format("the {} ran", name));
}

// Runs each measured model again under the tracer, to show what its memory consists of.
void measure_layers(Run& run) {
  for (const PreparedModel& model : run.prepared.models) {
    const auto measured = std::ranges::find(run.result.models, model.name, &ModelResult::name);
    if (measured == run.result.models.end() || measured->status != ModelStatus::ok) continue;
    step(run, fmt::format("tracing the layers of {}", model.name));
    auto layers = trace_layers(run, model);
    if (layers) {
      measured->layers = std::move(*layers);
      save_progress(run);
      continue;
    }
    note_failure(run, layers.error());
    if (run.interrupted) return;
  }
}

}  // namespace

void measure_extras(Run& run) {
  if (run.options.parallel) measure_parallel(run);
  if (run.options.pipeline && !run.interrupted) {
    step(run, "running the full pipeline in one process");
    measure_in_one_process(run, "pipeline", run.result.pipeline = PipelineResult{},
                           [&](auto& warnings) { return measure_pipeline(run, warnings); });
  }
  if (run.options.pool && !run.interrupted) {
    step(run, fmt::format("running all models in a pool of {}", format_bytes(*run.options.pool)));
    run.result.pool.emplace().budget = *run.options.pool;
    measure_in_one_process(run, "pool", run.result.pool,
                           [&](auto& warnings) { return measure_pool(run, run.result.models, warnings); });
  }
  if (run.options.layers && !run.interrupted) measure_layers(run);
}

}  // namespace headroom::bench
