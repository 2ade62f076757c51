// A sample run that covers all sections of the HTML report: successful models and a failed one, tuning,
// parallel, pipeline, names that need escaping.
#pragma once

#include <filesystem>
#include <string>

#include "types/bench_result.h"

namespace headroom::test {

BenchResult sample_run();
// The annotated images that the run names, as small PNGs.
void write_sample_images(const std::filesystem::path& run_folder);
// Figures of a machine every 0.5 s for `seconds`, as lines of metrics.jsonl.
std::string sample_metrics(int seconds);

}  // namespace headroom::test
