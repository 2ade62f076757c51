// Report entries of models without measurements. A model may fail in the setup phase, or the run may end
// before it measures the model.
#pragma once

#include <vector>

#include "bench/prepared_data.h"
#include "types/bench_options.h"
#include "types/bench_result.h"

namespace headroom::bench {

// An entry for every requested model, before the setup phase has tried any.
std::vector<ModelResult> models_not_reached(const BenchOptions& options);

// The entry of a model that failed in the setup phase.
ModelResult result_of_setup(const PreparedModel& model);

// The entry of a model that passed the setup phase, until it is measured, or for good if the run ends before
// that.
ModelResult not_yet_measured(const PreparedModel& model);

}  // namespace headroom::bench
