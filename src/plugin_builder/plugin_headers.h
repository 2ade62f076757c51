// Finds the headers and libraries that a plug-in is built with.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace headroom::plugin_builder {

struct PluginHeaders {
  std::string built_for;           // "TensorRT 8.6"
  std::vector<std::string> flags;  // for the compiler, before the sources
  std::vector<std::string> libraries;
  std::vector<std::string> notes;  // what the plug-in will lack
  bool traces_cuda = false;        // LibTorch's allocator reports its allocations: since 2.2
};

using IncludeDirs = std::vector<std::filesystem::path>;

// Errors (ErrorKind::input) name all that is missing, with packages. `dirs` are searched first.
Result<PluginHeaders> find_tensorrt(const IncludeDirs& dirs);
Result<PluginHeaders> find_libtorch(const IncludeDirs& dirs);
Result<PluginHeaders> find_rclcpp(const IncludeDirs& dirs);

}  // namespace headroom::plugin_builder
