#include "plugin_builder/build_plugin.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/files.h"
#include "base/text.h"
#include "plugin_builder/library_build.h"

namespace headroom::plugin_builder {
namespace {
namespace fs = std::filesystem;

struct Plugin {
  std::string_view name, file;
  PluginInterface interface;
  Result<PluginHeaders> (*find)(const IncludeDirs& dirs);
};

constexpr std::array<Plugin, 3> kPlugins{{
    {"tensorrt", "libheadroom_backend_tensorrt.so", PluginInterface::backend, find_tensorrt},
    {"libtorch", "libheadroom_backend_libtorch.so", PluginInterface::backend, find_libtorch},
    {"rclcpp", "libheadroom_ros2_rclcpp.so", PluginInterface::publisher, find_rclcpp},
}};

Result<const Plugin*> known_plugin(const std::string& name) {
  const auto* found = std::ranges::find(kPlugins, name, &Plugin::name);
  if (found != kPlugins.end()) return found;
  return usage_error(fmt::format("there is no plug-in '{}' to build", name), "",
                     did_you_mean(name, plugin_names(), "use tensorrt, libtorch or rclcpp"));
}

// What the user must know about where the plug-in lies, or nothing.
std::string note_on_place(const fs::path& file) {
  std::error_code code;
  for (const fs::path& folder : plugin_folders()) {
    const fs::path other = folder / file.filename();
    if (fs::equivalent(folder, file.parent_path(), code)) return {};
    if (fs::exists(other, code))
      return fmt::format(
          "Headroom uses {}, which it finds first; remove that file, or set "
          "HEADROOM_BACKEND_PATH={}",
          other.string(), file.parent_path().string());
  }
  return fmt::format("Headroom does not search that folder; set HEADROOM_BACKEND_PATH={}",
                     file.parent_path().string());
}

// Builds the memory tracer for the same LibTorch. It needs a newer compiler than the plug-in, so a failure is
// only a note.
void add_memory_tracer(const PluginHeaders& headers, const Compiler& compiler, const fs::path& place,
                       BuiltPlugin& built, const std::function<bool(std::string_view)>& progress) {
  const Library tracer{
      "memory_tracer",
      "libheadroom_memory_tracer.so",
      PluginInterface::memory_tracer,
      {"-std=c++20", "-fno-omit-frame-pointer"},
      headers.traces_cuda ? "memory_tracer/no_cuda_allocator.cpp" : "memory_tracer/cuda_allocator.cpp"};
  const fs::path file = place / tracer.file;
  if (const auto proof = build_library(tracer, headers, compiler, file, progress))
    built.memory_tracer = file;
  else
    built.notes.push_back(fmt::format("the memory tracer was not built (it needs g++ 10 or newer): {}",
                                      proof.error().sentence()));
}

}  // namespace

const std::vector<std::string>& plugin_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Plugin& plugin : kPlugins) names.emplace_back(plugin.name);
    return names;
  }();
  return kNames;
}

Result<fs::path> default_output_folder() {
  if (::geteuid() == 0) return fs::path("/usr/lib/headroom");
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0')
    return input_error("there is no folder for the plug-in", "HOME is not set", "give --output FOLDER");
  return fs::path(home) / ".local/lib/headroom";
}

Result<BuiltPlugin> build_plugin(const BuildPluginOptions& options,
                                 const std::function<bool(std::string_view)>& progress) {
  const auto plugin = known_plugin(options.name);
  if (!plugin) return tl::unexpected(plugin.error());
  auto folder = options.output.empty() ? default_output_folder() : Result<fs::path>(options.output);
  if (!folder) return forward_error(folder);
  auto headers = (*plugin)->find(options.include_dirs);
  if (!headers) return forward_error(headers);
  auto compiler = find_compiler();
  if (!compiler) return forward_error(compiler);
  std::error_code code;
  const fs::path place = fs::absolute(*folder, code).lexically_normal();
  const Library library{(*plugin)->name, (*plugin)->file, (*plugin)->interface, {"-std=c++17"}};
  BuiltPlugin built;
  built.file = place / (*plugin)->file;
  built.built_for = headers->built_for;
  built.notes = headers->notes;
  auto proof = build_library(library, *headers, *compiler, built.file, progress);
  if (!proof) {
    proof.error().what = fmt::format("cannot build the plug-in {} for {}: {}", options.name, built.built_for,
                                     proof.error().what);
    return forward_error(proof);
  }
  built.version = std::move(proof->version);
  if (!proof->problem.empty()) built.notes.push_back("it does not start here: " + proof->problem);
  if (auto note = note_on_place(built.file); !note.empty()) built.notes.push_back(std::move(note));
  if (options.name == "libtorch") add_memory_tracer(*headers, *compiler, place, built, progress);
  return built;
}

}  // namespace headroom::plugin_builder
