// Stores each distinct text once. Names in a large C++ program have kilobytes, and a hundred thousand
// addresses share a few thousand names and file paths.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

namespace headroom::symbols {

class StringPool {
 public:
  // The view is valid as long as the pool exists.
  std::string_view keep(std::string_view text) { return *texts_.emplace(text).first; }

 private:
  std::unordered_set<std::string> texts_;  // elements never move
};

}  // namespace headroom::symbols
