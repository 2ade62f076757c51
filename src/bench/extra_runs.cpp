#include "bench/extra_runs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "bench/helper_process.h"
#include "bench/layer_phase.h"

namespace headroom::bench {
namespace {

// A traced run of each model that was measured: what its memory consists of.
void measure_layers(const ExtraRuns& runs, const BenchContext& context, BenchResult& result,
                    ExtraOutcome& outcome) {
  for (const PreparedModel& model : context.prepared.models) {
    const auto is_same = [&](const ModelResult& measured) {
      return measured.name == model.name && measured.status == ModelStatus::ok;
    };
    const auto measured = std::find_if(result.models.begin(), result.models.end(), is_same);
    if (measured == result.models.end()) continue;
    runs.step(fmt::format("tracing the layers of {}", model.name));
    auto layers = trace_layers(context, model, runs.run_folder);
    if (layers) {
      measured->layers = std::move(*layers);
    } else if (was_interrupted(layers.error())) {
      outcome.interrupted = true;
      return;
    } else {
      measured->warnings.push_back(layers.error().sentence());
    }
    runs.save();
  }
}

}  // namespace

ExtraOutcome measure_extras(const ExtraRuns& runs, const BenchContext& context, BenchResult& result) {
  ExtraOutcome outcome;
  const auto note_failure = [&](const Error& error) {
    outcome.interrupted = outcome.interrupted || was_interrupted(error);
    outcome.failed = true;
    result.warnings.push_back(error.sentence());
    log::error("{}", error.sentence());
  };
  if (context.options.parallel) {
    runs.step("running all models at once");
    auto together = measure_together(context, result.models);
    if (together) {
      result.frames_held_peak = std::max(result.frames_held_peak, together->frames_held);
      result.parallel = std::move(*together);
    } else {
      note_failure(together.error());
    }
    runs.save();
  }
  if (context.options.pipeline && !outcome.interrupted) {
    runs.step("running the full pipeline in one process");
    auto pipeline = measure_pipeline(context);
    if (pipeline)
      result.pipeline = std::move(*pipeline);
    else
      note_failure(pipeline.error());
    runs.save();
  }
  if (context.options.layers && !outcome.interrupted) measure_layers(runs, context, result, outcome);
  return outcome;
}

}  // namespace headroom::bench
