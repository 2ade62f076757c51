// What a run measured of several models at once, as results beside those of the models alone, so that
// headroom diff and headroom history compare them by the same metrics. Pure.
#pragma once

#include <vector>

#include "types/bench_result.h"

namespace headroom::comparison {

// "(pipeline)": one process with all models, a frame through all of them being one inference; and each of its
// models, "det (in pipeline)". "det (in parallel)" of --parallel, and "(parallel)" with the joint peak.
// "(pool)" of --pool, and its models. Names with a bracket are told apart from those that a user may give a
// model only by themselves, so one that a model of the run has already is left out. Without series and
// frames.
std::vector<ModelResult> combined_results(const BenchResult& run);

}  // namespace headroom::comparison
