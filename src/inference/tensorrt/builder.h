// Builds an engine of an ONNX model and writes it with its record.
#pragma once

#include <memory>

#include "inference/tensorrt/engine_builder_plugin.h"
#include "inference/tensorrt/library.h"

namespace headroom::tensorrt {

// Throws Failure. An engine that is there and cannot be taken for the one that is asked for is not replaced
// without `force`: the failure says whether it is foreign, stale, of other settings, or not known.
void build_engine(Library& library, const hr_engine_order& order, hr_engine_outcome& outcome);

}  // namespace headroom::tensorrt
