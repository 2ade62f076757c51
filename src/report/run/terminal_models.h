// The tables of the models for the terminal, each with the line that says what is in it.
#pragma once

#include <string>

#include "types/bench_result.h"

namespace headroom::report {

// Latency, rate, findings and the peak that decides; empty without models. When no model was measured
// (--skip-inference): what was prepared, and what --tune tried.
std::string models_table(const BenchResult& result, bool color, int width);
// Resident memory by phase, of the models that have any; empty without one.
std::string phases_table(const BenchResult& result, bool color, int width);
// Of models on a GPU: its own time, and its memory by phase; empty without one.
std::string gpu_table(const BenchResult& result, bool color, int width);
// What the models' heaps consist of, by kind (--layers); empty without a traced run.
std::string kinds_table(const BenchResult& result, bool color, int width);

}  // namespace headroom::report
