// What a model consists of on the disk: its own file, and those beside it that hold its weights (ONNX's
// external data, which every model above 2 GiB has).
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace headroom::bench {

struct ModelFiles {
  std::string fingerprint;  // of all their content, as file_fingerprint() where there is one file
  Bytes size;               // of all together
};

// Finds the names of external files in the bytes of a model, whatever pieces they come in. An ONNX tensor
// names its file by an entry with the key "location" of its external_data. No parser: the model may be
// gigabytes, and what only looks like such an entry names no file that exists.
class ExternalDataFinder {
 public:
  void take(std::string_view piece);
  // Relative to the model's folder, and inside of it; each once.
  const std::set<std::string>& names() const { return names_; }

 private:
  std::string kept_;  // the end of what came before, where an entry may have begun
  std::set<std::string> names_;
};

// Reads all files of the model. `on_piece` is called after each 64 KiB. Errors: those of file_fingerprint().
Result<ModelFiles> read_model_files(const std::filesystem::path& path, const std::function<void()>& on_piece);

}  // namespace headroom::bench
