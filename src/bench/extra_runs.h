// What a bench run does besides measuring each model alone, where it was asked for: --parallel, --pipeline,
// --pool and --layers, in this order.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "bench/inference_phase.h"
#include "model/bench_result.h"

namespace headroom::bench {

struct ExtraRuns {
  std::filesystem::path run_folder;
  std::function<void(const std::string& text)> step;  // a step begins
  std::function<void()> save;                         // a step has left figures
};

struct ExtraOutcome {
  bool interrupted = false;
  bool failed = false;  // a run that was asked for did not take place
};

// One that fails or is stopped leaves the figures of the single models unharmed.
ExtraOutcome measure_extras(const ExtraRuns& runs, const BenchContext& context, BenchResult& result);

}  // namespace headroom::bench
