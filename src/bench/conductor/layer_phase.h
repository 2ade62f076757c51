// --layers: after all measurements, each model runs a few more frames under the tracer, in a separate
// process. The report then shows what the model's memory consists of. Measured runs are never traced.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "bench/conductor/inference_phase.h"
#include "types/layer_memory.h"

namespace headroom::bench {

// The recording stays in run_folder/layers/MODEL.hrec. The run's limit does not apply, because the tracer's
// own memory would count.
Result<LayerMemory> trace_layers(const BenchContext& context, const PreparedModel& model,
                                 const std::filesystem::path& run_folder);

// Checks that the preload library exists. Called before a run begins, so that the run does not fail at its
// end.
Status check_layer_tracing();

// The child that reads the recording (hidden verb `_layers`). The analysis needs more memory than the
// conductor may use.
int run_layers_process();

}  // namespace headroom::bench
