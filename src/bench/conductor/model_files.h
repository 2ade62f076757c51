// The files of a model: its main file, and the files next to it that contain its weights (ONNX external
// data). Every ONNX model above 2 GiB has such files.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace headroom::bench {

struct ModelFiles {
  std::string fingerprint;  // over the content of all files; file_fingerprint() if there is one file
  Bytes size;               // sum of all files
};

// Reads all files of the model. Calls `on_piece` after each 64 KiB. Errors: those of file_fingerprint().
Result<ModelFiles> read_model_files(const std::filesystem::path& path, const std::function<void()>& on_piece);

}  // namespace headroom::bench
