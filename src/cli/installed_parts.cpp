#include "cli/installed_parts.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/files.h"
#include "inference/backend.h"
#include "plugin_builder/plugin_proof.h"
#include "trace/tracer_environment.h"

namespace headroom::cli {
namespace {
namespace fs = std::filesystem;

constexpr const char* kPackage = "install Headroom's package again, or build all targets of its sources";

struct Part {
  std::string name;
  std::string state;    // "found", "fails", "not found", or a runtime's version
  std::string details;  // its path, or how to get it
};

Part missing(std::string name, std::string_view how_to_get) {
  return {std::move(name), "not found", std::string(how_to_get)};
}

// In a child process: a plug-in that is wrong for this machine may crash its process.
Part backend_part(const inference::BackendFile& file) {
  const auto proof = plugin_builder::prove(file.path, plugin_builder::PluginInterface::backend);
  if (!proof)
    return {file.name, "fails", fmt::format("{}: {}", file.path.string(), proof.error().sentence())};
  if (!proof->problem.empty())
    return {file.name, "fails", fmt::format("{}: {}", file.path.string(), proof->problem)};
  return {file.name, proof->version, file.path.string()};
}

// The known backends in their order of preference, then others.
std::vector<Part> backend_parts() {
  std::vector<Part> parts;
  std::vector<inference::BackendFile> files = inference::find_backend_files();
  for (const auto& [name, how_to_get] : inference::known_backends()) {
    const auto file = std::ranges::find(files, name, &inference::BackendFile::name);
    parts.push_back(file == files.end() ? missing(std::string(name), how_to_get) : backend_part(*file));
    if (file != files.end()) files.erase(file);
  }
  for (const inference::BackendFile& file : files) parts.push_back(backend_part(file));
  return parts;
}

Part plugin_part(std::string name, const char* file_name, const char* how_to_get) {
  const auto file = find_plugin(file_name);
  if (!file) return missing(std::move(name), how_to_get);
  if (::dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr)
    return {std::move(name), "found", file->string()};
  const char* reason = ::dlerror();  // names the file
  return {std::move(name), "fails",
          fmt::format("{}; {}", reason != nullptr ? reason : file->string(), how_to_get)};
}

// Not loaded: the preload libraries would record this process.
Part file_part(std::string name, const fs::path& file) {
  if (file.empty() || ::access(file.c_str(), R_OK) != 0) return missing(std::move(name), kPackage);
  return {std::move(name), "found", file.string()};
}

std::vector<Part> all_parts() {
  std::vector<Part> parts = backend_parts();
  parts.push_back(plugin_part("pictures", "libheadroom_media_pictures.so", kPackage));
  parts.push_back(plugin_part("serve", "libheadroom_serve_httplib.so", kPackage));
  parts.push_back(
      plugin_part("serve --ros2 (rclcpp)", "libheadroom_ros2_rclcpp.so", "run headroom build-plugin rclcpp"));
  parts.push_back(plugin_part("serve --ros2 (cyclonedds)", "libheadroom_ros2_cyclonedds.so",
                              "install cyclonedds-dev and cyclonedds-tools, and build Headroom"));
  parts.push_back(file_part("trace", trace::tracer_library()));
  parts.push_back(file_part("trace --pid", trace::attach_library()));
  parts.push_back(file_part("GPU limits and figures", trace::gpu_tracer_library()));
  parts.push_back(
      file_part("isolated models of a pool", find_plugin("headroom_model_process").value_or(fs::path())));
  return parts;
}

}  // namespace

std::string installed_parts_text() {
  const std::vector<Part> parts = all_parts();
  std::size_t names = 0, states = 0;
  for (const Part& part : parts) {
    names = std::max(names, part.name.size());
    states = std::max(states, part.state.size());
  }
  std::string text;
  for (const Part& part : parts)
    text += fmt::format("{:<{}}  {:<{}}  {}\n", part.name, names, part.state, states, part.details);
  return text + fmt::format("searched: {}\n", plugin_folders_text());
}

}  // namespace headroom::cli
