// Builds an engine from an ONNX model, and writes the engine and its record.
#pragma once

#include <memory>

#include "inference/tensorrt/engine_builder_plugin.h"
#include "inference/tensorrt/library.h"

namespace headroom::tensorrt {

// Without `force`, an existing engine is never replaced. If it matches the request, the function does
// nothing. Otherwise it throws a Failure, which says why the engine does not match: it is incompatible,
// stale, built with other settings, or of unknown origin. All other errors are Failures, too.
void build_engine(Library& library, const hr_engine_request& request, hr_engine_outcome& outcome);

}  // namespace headroom::tensorrt
