// The outcome of each model, in words and an order that all views share.
#pragma once

#include <string_view>
#include <vector>

#include "types/bench_result.h"

namespace headroom::report {

// Errors of models in a run that ended early: of the model that was being measured, and of the later ones.
inline constexpr std::string_view kCutShort = "the run ended while it was being measured";
inline constexpr std::string_view kNotReached = "the run ended before it was measured";

enum class Outcome {
  ok,
  over,         // completed, and above the limit in a sample
  prepared,     // completed the setup phase, not measured (--skip-inference)
  fallen,       // out of memory, crashed, timed out or failed: see the status
  cut_short,    // the run ended during its measurement
  not_reached,  // the run ended before
  skipped,      // a slot without a path
};
Outcome outcome_of(const ModelResult& model);
// "ok", "over the limit", "prepared", "out of memory", "cut short", "not reached", "skipped".
std::string_view words_for_outcome(const ModelResult& model);
// True if the run ended while the process with all models was still running.
bool was_cut_short(const PipelineResult& pipeline);
bool was_cut_short(const PoolResult& pool);
// As words_for_outcome() of a model.
std::string_view words_for_outcome(const PipelineResult& pipeline);
std::string_view words_for_outcome(const PoolResult& pool);
// True for ok, over and fallen: the measurement was not cut short.
bool was_measured(const ModelResult& model);

// Models without figures (skipped, not reached) come last; otherwise the order stays.
std::vector<const ModelResult*> in_reading_order(const std::vector<ModelResult>& models);

// Models whose latency varies by more than 2.5 % (standard deviation over mean). Models with fewer than 10
// frames are not judged, because one slow frame would decide.
std::vector<const ModelResult*> noisy_models(const std::vector<ModelResult>& models);
// The number of models with enough frames.
std::int64_t models_judged_for_noise(const std::vector<ModelResult>& models);
// The model's warnings, without the one about variation if there are too few frames.
std::vector<std::string> warnings_of(const ModelResult& model);
// True for the warning about varying latency. The terminal prints one line for all models instead.
bool is_about_variation(std::string_view warning);

}  // namespace headroom::report
