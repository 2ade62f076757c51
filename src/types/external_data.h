// Finds the files next to an ONNX model that contain its weights (external data). Every model above 2 GiB has
// such files.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace headroom {

// Finds the names of external files in the bytes of a model, in pieces of any size. An ONNX tensor names its
// file in an entry with the key "location" of its external_data. This is a search, not a parser, because the
// model may have gigabytes. Bytes that only look like such an entry give the name of a file that does not
// exist.
class ExternalDataFinder {
 public:
  void take(std::string_view piece);
  // Relative to the model's folder and inside it, without duplicates.
  const std::set<std::string>& names() const { return names_; }

 private:
  std::string kept_;  // the end of the previous piece, where an entry may have started
  std::set<std::string> names_;
};

}  // namespace headroom
