// --pool: all models in one process, whose memory a pool keeps inside a budget.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/inference_phase.h"
#include "model/bench_result.h"

namespace headroom::bench {

// A budget is of one memory: an error where the models are on several devices, or one
// with a process of its own is not on the CPU.
Status check_pool(const BenchOptions& options);

// What a model took by itself, beside its runtime and the frames that it held: what counts in a budget, which
// pages of files do not. On a GPU what it took there. In a pool a load includes the runs that warm it.
// `isolated`: with the runtime, which its process needs, too.
struct TakenAlone {
  Bytes load_peak, run_peak;
};
TakenAlone taken_alone(const ModelResult& alone, const std::string& device, bool isolated = false);

// `alone`: what was measured of each model by itself; its loads in the pool are expected to take as much.
// What a run that was interrupted had shown is kept, too.
Result<PoolResult> measure_pool(const BenchContext& context, const std::vector<ModelResult>& alone,
                                std::vector<std::string>& warnings);

}  // namespace headroom::bench
