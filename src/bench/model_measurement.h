// Each model of a run alone, one after another, with the reports brought up to date in between.
#pragma once

#include "base/result.h"
#include "bench/bench_run.h"
#include "bench/inference_phase.h"

namespace headroom::bench {

// A result for each model that was asked for; with --skip-inference of the setup alone. A model that fails is
// a result, too; an interrupt is run.interrupted.
Status measure_models(Run& run, const BenchContext& context);

// The model under way, as far as it is. Its warnings and status are those of a run that was cut short.
void save_partial_result(Run& run, ModelResult partial);

}  // namespace headroom::bench
