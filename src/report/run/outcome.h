// What became of each model, in the words and the order of every view.
#pragma once

#include <string_view>
#include <vector>

#include "types/bench_result.h"

namespace headroom::report {

// The errors of models in a run that ended early: of the one that was under way, and of those not reached.
inline constexpr std::string_view kCutShort = "the run ended while it was being measured";
inline constexpr std::string_view kNotReached = "the run ended before it was measured";

enum class Outcome {
  ok,
  over,         // it came through, and was seen over the limit
  prepared,     // it came through the setup phase, and was not measured (--skip-inference)
  fallen,       // out of memory, crashed, timed out or failed: the status says which
  cut_short,    // the run ended while it was being measured: nothing is known against it
  not_reached,  // the run ended before
  skipped,      // a slot without a path
};
Outcome outcome_of(const ModelResult& model);
// "ok", "over the limit", "prepared", "out of memory", "cut short", "not reached", "skipped".
std::string_view words_for_outcome(const ModelResult& model);
// Of the process with all models, where a run that ended early did not let it end: nothing is known against
// it.
bool was_cut_short(const PipelineResult& pipeline);
bool was_cut_short(const PoolResult& pool);
// As words_for_outcome() of a model.
std::string_view words_for_outcome(const PipelineResult& pipeline);
std::string_view words_for_outcome(const PoolResult& pool);
// ok, over and fallen: the measurement came to an end of its own.
bool was_measured(const ModelResult& model);

// Models that have nothing to show (skipped, not reached) below the others; else as given.
std::vector<const ModelResult*> in_reading_order(const std::vector<ModelResult>& models);

// Models whose latency varies by more than 2.5 % (standard deviation over mean). Below 10 frames nothing is
// said about it: one slow frame decides there.
std::vector<const ModelResult*> noisy_models(const std::vector<ModelResult>& models);
// Models with enough frames to say it of.
std::int64_t models_judged_for_noise(const std::vector<ModelResult>& models);
// The model's warnings, but for one about a variation that too few frames cannot show.
std::vector<std::string> warnings_of(const ModelResult& model);
// True for the warning about the variation of the latency, which the terminal tells of all models in one
// line.
bool is_about_variation(std::string_view warning);

}  // namespace headroom::report
