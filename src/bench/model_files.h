// What a model consists of on the disk: its own file, and those beside it that hold its weights (ONNX's
// external data, which every model above 2 GiB has).
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace headroom::bench {

struct ModelFiles {
  std::string fingerprint;  // of all their content, as file_fingerprint() where there is one file
  Bytes size;               // of all together
};

// Reads all files of the model. `on_piece` is called after each 64 KiB. Errors: those of file_fingerprint().
Result<ModelFiles> read_model_files(const std::filesystem::path& path, const std::function<void()>& on_piece);

}  // namespace headroom::bench
