// `headroom build-engine`: a TensorRT engine of an ONNX model.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/conductor/build_engine.h"
#include "cli/flag_table.h"

namespace headroom::cli {

const Verb& build_engine_verb();
// What the arguments ask for; errors are the person's.
Result<bench::BuildEngineOptions> build_engine_options_from(const std::vector<std::string>& arguments);
int run_build_engine_verb(const std::vector<std::string>& arguments);

}  // namespace headroom::cli
