// Builds an engine from an ONNX model, and writes the engine and its record.
#pragma once

#include <memory>

#include "inference/tensorrt/engine_builder_plugin.h"
#include "inference/tensorrt/library.h"

namespace headroom::tensorrt {

// Throws Failure. Without `force`, an existing engine is never replaced: the function does nothing if
// the engine matches the request, and fails otherwise. The failure says whether the
// engine is incompatible, stale, built with other settings, or of unknown origin.
void build_engine(Library& library, const hr_engine_request& request, hr_engine_outcome& outcome);

}  // namespace headroom::tensorrt
