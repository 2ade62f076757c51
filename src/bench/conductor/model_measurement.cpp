#include "bench/conductor/model_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "bench/conductor/annotate.h"
#include "bench/conductor/helper_process.h"
#include "bench/conductor/report_files.h"
#include "bench/conductor/setup_results.h"
#include "report/run/outcome.h"
#include "report/run/verdict.h"
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

// The setup knows the size of all the model's files. If it could not read them, the size of the model's own
// file is used.
void set_file_size(ModelResult& result) {
  if (result.file_size) return;
  std::error_code code;
  const auto size = std::filesystem::file_size(result.path, code);
  if (!code) result.file_size = Bytes{static_cast<std::int64_t>(size)};
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

Status measure_model(Run& run, const BenchContext& context, const PreparedModel& model, ModelResult& result,
                     bool is_last) {
  result.status = ModelStatus::failed;
  result.error = report::kCutShort;
  save_progress(run);
  auto measured = measure_alone(context, model);
  if (!measured) {  // this model could not be started; the next ones may
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
  note_disk_problem(run, write_frame_times(model.name, measured->frames, run.folder.path));
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

}  // namespace

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
  const bool more_follows =
      run.options.parallel || run.options.pipeline || run.options.pool || run.options.layers;
  for (std::size_t i = 0; i < run.prepared.models.size() && !run.interrupted; ++i) {
    const PreparedModel& model = run.prepared.models[i];
    const bool is_last = !more_follows && i + 1 == run.prepared.models.size();
    run.measuring = first + i;
    if (model.status == ModelStatus::ok)
      if (auto measured = measure_model(run, context, model, results[first + i], is_last); !measured)
        return measured;
    set_file_size(results[first + i]);
    // The setup has already logged its failures. With --skip-setup there was no setup, so they are logged
    // here.
    if (model.status == ModelStatus::ok || run.options.skip_setup) log_result(run, results[first + i]);
    if (!is_last) save_reports(run);  // after the last model, finish() saves
  }
  return {};
}

void save_partial_result(Run& run, ModelResult partial) {
  partial.status = ModelStatus::failed;
  partial.error = report::kCutShort;
  run.result.models[run.measuring] = std::move(partial);
  set_file_size(run.result.models[run.measuring]);
  save_progress(run);
}

}  // namespace headroom::bench
