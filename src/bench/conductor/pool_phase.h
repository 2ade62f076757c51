// --pool: all models in one process, whose memory a pool keeps within a budget.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/conductor/inference_phase.h"
#include "types/bench_result.h"

namespace headroom::bench {

// A budget applies to the memory of one device. So it is an error if the models use several devices, or if a
// model with a separate process is not on the CPU.
Status check_pool(const BenchOptions& options);

// The peaks of a model that ran alone, without its runtime and frames. File pages are left out, because they
// do not count in a budget. On a GPU: its GPU memory. `load_peak` is the larger of both peaks, because in a
// pool a load includes the warm-up runs. With `isolated`, the peaks include the runtime, because the model's
// separate process needs one.
struct PeaksAlone {
  Bytes load_peak, run_peak;
};
PeaksAlone peaks_alone(const ModelResult& alone, const std::string& device, bool isolated = false);

// `alone`: the results of each model alone. The pool expects that a model's load needs as much memory. If the
// run is interrupted, this returns the results so far.
Result<PoolResult> measure_pool(const BenchContext& context, const std::vector<ModelResult>& alone,
                                std::vector<std::string>& warnings);

}  // namespace headroom::bench
