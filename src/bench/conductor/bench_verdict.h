// The verdict on a finished run, from its results only.
#pragma once

#include "types/bench_result.h"

namespace headroom::bench {

// True if any model failed: alone, in parallel, in the pipeline or in the pool. Skipped models did not fail.
bool any_model_failed(const BenchResult& result);
// True if any of these runs exceeded a memory or GPU memory limit.
bool limit_violated(const BenchResult& result);

}  // namespace headroom::bench
