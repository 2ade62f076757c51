// Results made by hand, one for each kind of run that a report must tell of. All figures come from integer
// arithmetic, so that the golden files are the same on every processor.
#pragma once

#include <string>
#include <vector>

#include "model/bench_result.h"

namespace headroom::test {

BenchResult typical_run();   // three models inside a hard limit, nothing wrong
BenchResult rich_run();      // four models, tuning, series, histograms, parallel, pipeline, warnings, an oom
BenchResult fallen_run();    // ok, oom, crash, timeout, a soft limit exceeded, names that need escaping
BenchResult parallel_run();  // two models alone and together, one of them killed together
BenchResult pipeline_run();  // three models in one process, without a limit
BenchResult pool_run();      // the same in a pool
BenchResult incomplete_run();  // interrupted in the second of three models; a camera
BenchResult charged_run();     // resident above the limit, the group's account below it; a few frames only
BenchResult prepared_run();    // --tune --skip-inference: two models prepared, one of them tuned
BenchResult
gpu_run();  // on a GPU under a limit of its memory: two models, the second refused; alone and together
BenchResult empty_run();  // nothing was measured

struct NamedRun {
  std::string name;
  BenchResult result;
};
// All of the above, by the names of their folders under tests/golden/report.
std::vector<NamedRun> sample_runs();

}  // namespace headroom::test
