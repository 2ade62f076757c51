// The trials of --tune in words that all views share.
#pragma once

#include <string>

#include "types/bench_result.h"

namespace headroom::report {

// "fastest that fits", "smallest within 5 %", both, or empty for a trial that was not kept.
std::string kept_as(const ModelResult& model, const TuneTrial& trial);
// The settings that differ from `base`: "arena=off".
std::string difference(const RuntimeSettings& settings, const RuntimeSettings& base);
// "fastest of 5 settings tried: threads=2 …, P50 14.20 ms, peak 50.9 MiB; smallest within 5 %: arena=off, …".
// Empty without trials.
std::string describe_tuning(const ModelResult& model);

}  // namespace headroom::report
