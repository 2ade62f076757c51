// `headroom build-plugin`: compiles a plug-in with this machine's g++ and headers, and loads it once. Some
// plug-ins must fit what the machine has, so no package can contain them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace headroom::plugin_builder {

// "tensorrt", "libtorch", "rclcpp".
const std::vector<std::string>& plugin_names();

struct BuildPluginOptions {
  std::string name;
  std::filesystem::path output;                     // the folder; empty: default_output_folder()
  std::vector<std::filesystem::path> include_dirs;  // searched first
};

struct BuiltPlugin {
  std::filesystem::path file;
  std::filesystem::path memory_tracer;  // comes with libtorch; empty: not built
  std::string built_for;                // "TensorRT 8.6": the version of the headers
  std::string version;                  // what the loaded runtime reports; empty if it does not start here
  std::vector<std::string> notes;
};

// As root /usr/lib/headroom, else ~/.local/lib/headroom.
Result<std::filesystem::path> default_output_folder();

// An error names each missing thing with its package (ErrorKind::input), or the compiler's first error
// (ErrorKind::failed); the compiler's output is then in the log. `progress` is called a few times a second;
// false stops the build, and no file stays.
Result<BuiltPlugin> build_plugin(const BuildPluginOptions& options,
                                 const std::function<bool(std::string_view)>& progress);

}  // namespace headroom::plugin_builder
