// Which files beside it an ONNX model keeps its weights in (external data, which every model above 2 GiB
// has).
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace headroom {

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

}  // namespace headroom
