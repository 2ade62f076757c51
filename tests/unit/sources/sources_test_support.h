// A file tree that replaces a machine's /proc and /sys.
#pragma once

#include <filesystem>
#include <string>

#include "support/test_support.h"

namespace headroom::sources {

class Tree {
 public:
  void file(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    test::write_text(folder_.path() / path, text);
  }
  const std::filesystem::path& root() const { return folder_.path(); }

 private:
  test::TemporaryFolder folder_;
};

}  // namespace headroom::sources
