// Models in ONNX Runtime's own format (.ort), whose weights the session maps from the file. The system can
// drop such pages and read them again, and loading does not copy the weights. Example: ch_PP-OCRv4_rec
// (10.8 MB) needs 14.8 MB of anonymous memory after loading, instead of 35.5 MB from the .onnx file.
#pragma once

#include <string>

#include "inference/backend_plugin.h"
#include "inference/onnxruntime/runtime.h"

namespace headroom::onnxruntime {

// Returns the .ort file of this model, optimized for this machine, in HEADROOM_ENGINE_CACHE. The first call
// loads the whole model to make the file, so it needs as much memory as an ordinary load. It makes the file
// again if the model or its external weights change. A model that is an .ort file is returned as it is.
// Throws Failure.
std::string mapped_model(Runtime& runtime, const std::string& path, const hr_settings& settings);
// Adds the session options that map the weights.
void add_mapping(const Runtime& runtime, OrtSessionOptions& options);
// Throws Failure if this process has not mapped the file. Libraries before 1.29 silently ignore the option;
// the measured figures would then be those of an ordinary load.
void require_mapped(const Runtime& runtime, const std::string& file);

}  // namespace headroom::onnxruntime
