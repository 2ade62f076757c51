// --layers: after everything is measured, each model runs a few frames more under the tracer, in a process of
// its own, so that the report can say what its memory consists of. Tracing never touches a measured run.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "bench/inference_phase.h"
#include "model/layer_memory.h"

namespace headroom::bench {

// The recording stays in run_folder/layers/MODEL.hrec. Not held to the run's limit: the tracer's own memory
// would count.
Result<LayerMemory> trace_layers(const BenchContext& context, const PreparedModel& model,
                                 const std::filesystem::path& run_folder);

// Whether the preload library is there; asked before a run begins, so that nobody waits for nothing.
Status check_layer_tracing();

// The child that reads the recording (hidden verb `_layers`): an analysis takes more memory than the
// conductor may.
int run_layers_process();

}  // namespace headroom::bench
