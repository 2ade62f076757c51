// The parts of report.md. Each is a heading and what belongs under it, ending in an empty line, or nothing
// when the run has nothing to tell there.
#pragma once

#include <string>

#include "model/bench_result.h"

namespace headroom::report {

std::string memory_safety_section(const BenchResult& result);
std::string models_section(const BenchResult& result);
std::string parallel_section(const BenchResult& result);
std::string pipeline_section(const BenchResult& result);

}  // namespace headroom::report
