// What a run says of itself that can explain a change: the model's file, settings, runtime, machine, clocks.
#pragma once

#include <vector>

#include "analysis/run_comparison.h"

namespace headroom::analysis {

// What the first runs of the sides differ in, the likeliest cause first.
std::vector<FactChange> model_facts(const ComparedModel& before, const ComparedModel& after);
std::vector<FactChange> run_facts(const ComparedRun& before, const ComparedRun& after);

}  // namespace headroom::analysis
