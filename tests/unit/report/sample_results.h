// Hand-made results, one for each kind of run that a report must cover. All figures come from integer
// arithmetic, so that the golden files are identical on every processor.
#pragma once

#include <string>
#include <vector>

#include "types/bench_result.h"

namespace headroom::test {

BenchResult typical_run();   // three models inside a hard limit, no problems
BenchResult rich_run();      // four models, tuning, series, histograms, parallel, pipeline, warnings, an oom
BenchResult fallen_run();    // ok, oom, crash, timeout, a soft limit exceeded, names that need escaping
BenchResult parallel_run();  // two models alone and together, one of them killed together
BenchResult pipeline_run();  // three models in one process, without a limit
BenchResult pool_run();      // the same models in a pool
BenchResult incomplete_run();  // interrupted in the second of three models; a camera
BenchResult charged_run();     // resident memory above the limit, charged memory below it; few frames
BenchResult prepared_run();    // --tune --skip-inference: two models prepared, one of them tuned
BenchResult
gpu_run();  // on a GPU under a limit of its memory: two models, the second refused; alone and together
BenchResult empty_run();  // nothing was measured

struct NamedRun {
  std::string name;
  BenchResult result;
};
// All of the above, with the names of their folders in tests/golden/report.
std::vector<NamedRun> sample_runs();

}  // namespace headroom::test
