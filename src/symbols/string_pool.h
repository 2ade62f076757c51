// Keeps each distinct text once. A large C++ program has names of kilobytes, and the same few thousand of
// them and of file paths stand behind a hundred thousand addresses.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

namespace headroom::symbols {

class StringPool {
 public:
  // The view is good for as long as the pool lives.
  std::string_view keep(std::string_view text) { return *texts_.emplace(text).first; }

 private:
  std::unordered_set<std::string> texts_;  // its elements never move
};

}  // namespace headroom::symbols
