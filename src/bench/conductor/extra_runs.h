// The extra runs of a bench, if requested, in this order: --parallel, --pipeline, --pool and --layers.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "bench/conductor/inference_phase.h"
#include "types/bench_result.h"

namespace headroom::bench {

struct ExtraRuns {
  std::filesystem::path run_folder;
  std::function<void(const std::string& text)> step;  // prints the start of a step
  std::function<void()> save;                         // saves the report after a step
};

struct ExtraOutcome {
  bool interrupted = false;
  bool failed = false;  // a requested run could not be made
};

// An extra run that fails or is stopped does not change the results of the single models.
ExtraOutcome measure_extras(const ExtraRuns& runs, const BenchContext& context, BenchResult& result);

}  // namespace headroom::bench
