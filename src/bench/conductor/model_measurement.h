// Measures the models of a run alone, one after another, and updates the reports in between.
#pragma once

#include "base/result.h"
#include "bench/conductor/bench_state.h"
#include "bench/conductor/inference_phase.h"

namespace headroom::bench {

// Adds a result for each requested model; with --skip-inference, the result of the setup phase. A model that
// fails has a result, too. An interrupt sets run.interrupted.
Status measure_models(Run& run, const BenchContext& context);

// Saves the partial result of the current model, marked as cut short.
void save_partial_result(Run& run, ModelResult partial);

}  // namespace headroom::bench
