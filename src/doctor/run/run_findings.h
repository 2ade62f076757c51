// What a run of headroom bench tells.
#pragma once

#include <string>
#include <vector>

#include "model/bench_result.h"
#include "model/finding.h"

namespace headroom::doctor {

// `file`: the run's report.json. Unsorted.
std::vector<Finding> run_findings(const BenchResult& result, const std::string& file);

}  // namespace headroom::doctor
