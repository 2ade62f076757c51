// Models that were killed at a limit that they share: who exceeded it?
#pragma once

#include <vector>

#include "model/bench_result.h"

namespace headroom::bench {

// At a common limit the kernel kills the largest process, which need not be the one that grew. What each
// model needed alone, under the same limit, tells them apart: the errors in `together` say it, and a model
// that kept the limit alone is marked neither as over it nor as within it.
void tell_apart_at_common_limit(std::vector<ModelResult>& together, const std::vector<ModelResult>& alone);

}  // namespace headroom::bench
