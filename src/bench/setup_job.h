// The options of a bench as they travel to the setup process.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "model/bench_options.h"

namespace headroom::bench {

// Only what the setup phase needs.
nlohmann::ordered_json to_json(const BenchOptions& options);
Result<BenchOptions> bench_options_from_json(const nlohmann::ordered_json& document);

}  // namespace headroom::bench
