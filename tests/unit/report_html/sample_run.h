// A run with everything that the HTML report can show: models that came through and one that did not, tuning,
// parallel, pipeline, names that would be markup if they were not escaped.
#pragma once

#include <filesystem>
#include <string>

#include "model/bench_result.h"

namespace headroom::test {

// A model name that ends the data element, opens a comment and starts a script, if anything lets it.
inline constexpr const char* kHostileName = "</script><!--<script>alert(1)</script>&amp;\"'";

BenchResult sample_run();
// The annotated images that the run names, as small PNGs.
void write_sample_images(const std::filesystem::path& run_folder);
// A machine's figures every 0.5 s for `seconds`, as lines of metrics.jsonl.
std::string sample_metrics(int seconds);

}  // namespace headroom::test
