// The terminal's tables of models, each with a line that explains its columns.
#pragma once

#include <string>

#include "types/bench_result.h"

namespace headroom::report {

// Latency, rate, detections and the peak; empty without models. If no model was measured (--skip-inference):
// the prepared models and the settings that --tune tried.
std::string models_table(const BenchResult& result, bool color, int width);
// Resident memory by phase; empty without such figures.
std::string phases_table(const BenchResult& result, bool color, int width);
// For models on a GPU: time by the GPU's clock, and GPU memory by phase; empty without such models.
std::string gpu_table(const BenchResult& result, bool color, int width);
// The heap of each model by kind of memory (--layers); empty without a traced run.
std::string kinds_table(const BenchResult& result, bool color, int width);

}  // namespace headroom::report
