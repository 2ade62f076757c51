// Compiles one shared library of src/plugin_sources.txt.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin_builder/compiler.h"
#include "plugin_builder/plugin_headers.h"
#include "plugin_builder/plugin_proof.h"

namespace headroom::plugin_builder {

struct Library {
  std::string_view name;  // in plugin_sources.txt
  std::string_view file;  // "libheadroom_backend_tensorrt.so"
  PluginInterface interface;
  std::vector<std::string> flags{};  // the C++ standard, and more
  std::string_view left_out{};       // a source that is not compiled, or empty
};

// Compiles and loads it. Then replaces `to` in one step, so that a program that opens the file meanwhile gets
// either library. After a failure, `to` is unchanged. `progress` is called a few times a second.
Result<Proof> build_library(const Library& library, const PluginHeaders& headers, const Compiler& compiler,
                            const std::filesystem::path& to,
                            const std::function<bool(std::string_view)>& progress);

}  // namespace headroom::plugin_builder
