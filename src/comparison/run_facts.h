// What a run says of itself that can explain a change: the model's file, settings, runtime, machine, clocks.
#pragma once

#include <string>
#include <vector>

#include "comparison/run_comparison.h"

namespace headroom::comparison {

// What the sides differ in, the likeliest cause first. Of several runs a side counts what most of them say,
// and of a clock, a load or a temperature the median. Each side has a run.
std::vector<FactChange> model_facts(const std::vector<const ComparedModel*>& before,
                                    const std::vector<const ComparedModel*>& after);
std::vector<FactChange> run_facts(const Side& before, const Side& after);

// What the runs of one side differ in, though they should be of one thing: "board: Orin Nano in 9 runs,
// Xavier NX in 1".
std::vector<std::string> mixed_model_facts(const std::vector<const ComparedModel*>& models);
std::vector<std::string> mixed_run_facts(const Side& side);

}  // namespace headroom::comparison
