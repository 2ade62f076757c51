// Findings in a run of headroom bench.
#pragma once

#include <string>
#include <vector>

#include "types/bench_result.h"
#include "types/finding.h"

namespace headroom::doctor {

// `file`: the run's report.json. Unsorted.
std::vector<Finding> run_findings(const BenchResult& result, const std::string& file);

}  // namespace headroom::doctor
