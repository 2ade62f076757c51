// A model in ONNX Runtime's own format, whose weights the session maps from the file: they are pages of a
// file, which the system can drop and read again, and loading makes no copy of them beside the file's text.
// ch_PP-OCRv4_rec (10.8 MB): 14.8 MB of anonymous memory once it is loaded, and 35.5 from the .onnx.
#pragma once

#include <string>

#include "inference/backend_plugin.h"
#include "inference/onnxruntime/runtime.h"

namespace headroom::onnxruntime {

// The file of this model, optimized for this machine, in HEADROOM_ENGINE_CACHE. It is made once, by a whole
// session, so the first call takes what loading takes without it. Throws Failure.
std::string mapped_model(Runtime& runtime, const std::string& path, const hr_settings& settings);
// What a session on it needs beside the usual.
void add_mapping(const Runtime& runtime, OrtSessionOptions& options);
// Libraries that do not know the option ignore it without a word, and the figures would be of another
// loading. Throws Failure if no part of the file is mapped in this process.
void require_mapped(const Runtime& runtime, const std::string& file);

}  // namespace headroom::onnxruntime
