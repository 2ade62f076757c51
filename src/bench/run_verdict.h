// What a finished run is, by its results alone.
#pragma once

#include "model/bench_result.h"

namespace headroom::bench {

// Of the models alone, all at once, or in the pipeline or the pool. Skipped ones did not fail.
bool any_model_failed(const BenchResult& result);
// Of memory or of GPU memory, by any of them.
bool limit_violated(const BenchResult& result);

}  // namespace headroom::bench
