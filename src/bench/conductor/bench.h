// `headroom bench`: runs models over frames, each in a fresh process under the limit, and writes the reports.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "types/bench_options.h"

namespace headroom::bench {

// Runs the whole bench and writes the run folder. Returns the exit code: 0; 1 when a model failed or, with
// --strict, the limit was exceeded; 130 after Ctrl-C. An error means that nothing could be measured.
// `command`: the command line, for the report. `warnings`: warnings about changed options, for the report.
Result<int> run_bench(const BenchOptions& options, const std::string& command,
                      const std::vector<std::string>& warnings);

}  // namespace headroom::bench
