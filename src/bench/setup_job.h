// The JSON form of the bench options for the setup process.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "types/bench_options.h"

namespace headroom::bench {

// Contains only the options that the setup phase needs.
nlohmann::ordered_json to_json(const BenchOptions& options);
Result<BenchOptions> bench_options_from_json(const nlohmann::ordered_json& document);

}  // namespace headroom::bench
