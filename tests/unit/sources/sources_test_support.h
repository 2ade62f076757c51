// A file tree that replaces a machine's /proc and /sys.
#pragma once

#include <filesystem>
#include <string>

#include "sources/system_sampler.h"
#include "support/test_support.h"

namespace headroom::sources {

class Tree {
 public:
  void file(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    test::write_text(folder_.path() / path, text);
  }
  const std::filesystem::path& root() const { return folder_.path(); }
  // The first sample of a sampler for this tree.
  SystemSample sample() const { return SystemSampler(root()).sample(); }

 private:
  test::TemporaryFolder folder_;
};

}  // namespace headroom::sources
