// What the report says of models that were prepared and not measured: not yet, not any more, or not at all.
#pragma once

#include <vector>

#include "bench/prepared_data.h"
#include "model/bench_options.h"
#include "model/bench_result.h"

namespace headroom::bench {

// Every model asked for, before the setup phase has tried any.
std::vector<ModelResult> models_not_reached(const BenchOptions& options);

// A model that did not pass the setup phase is in the report with what happened there.
ModelResult result_of_setup(const PreparedModel& model);

// Of one that passed: what the report says until it was measured, and for good if the run ends before.
ModelResult not_yet_measured(const PreparedModel& model);

}  // namespace headroom::bench
