// `headroom watch` in a folder of its own.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace headroom::test {

class Watch : public testing::Test {
 protected:
  // Paths in the arguments are relative to the test's folder.
  CommandResult watch(std::vector<std::string> arguments, CommandOptions options = {}) const {
    arguments.insert(arguments.begin(), "watch");
    options.folder = folder_.path();
    return run_headroom(arguments, options);
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_text(folder_ / name, text);
  }
  std::string read(const std::string& name) const { return read_text(folder_ / name); }
  // Empty while the file does not exist.
  std::string read_if_there(const std::string& name) const {
    return std::filesystem::exists(folder_ / name) ? read(name) : "";
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  TemporaryFolder folder_;
};

}  // namespace headroom::test
