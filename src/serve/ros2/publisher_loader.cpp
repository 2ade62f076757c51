#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <optional>

#include "base/files.h"
#include "base/log.h"
#include "serve/ros2/publisher.h"

namespace headroom::ros2 {
namespace fs = std::filesystem;
namespace {

constexpr std::array<std::string_view, 2> kPublisherNames = {"rclcpp", "cyclonedds"};

Result<std::unique_ptr<DiagnosticsPublisher>> load(const fs::path& file) {
  // Never close the library: these libraries leave threads and exit handlers behind.
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return internal_error(fmt::format("cannot load {}", file.string()),
                          reason != nullptr ? reason : "unknown",
                          "set up ROS 2's environment (source /opt/ros/DISTRIBUTION/setup.sh)");
  }
  const auto create =
      reinterpret_cast<DiagnosticsPublisherFunction>(::dlsym(library, kDiagnosticsPublisherSymbol));
  if (create == nullptr)
    return internal_error(fmt::format("cannot use {}", file.string()),
                          fmt::format("it has no function {}", kDiagnosticsPublisherSymbol),
                          "rebuild it together with this headroom");
  return std::unique_ptr<DiagnosticsPublisher>(create());
}

}  // namespace

Result<std::unique_ptr<DiagnosticsPublisher>> load_diagnostics_publisher(std::string_view name) {
  std::optional<Error> first_error;
  std::string files;
  for (const std::string_view each : kPublisherNames) {
    if (name != "auto" && name != each) continue;
    const std::string file_name = fmt::format("libheadroom_ros2_{}.so", each);
    files += (files.empty() ? "" : " or ") + file_name;
    for (const fs::path& folder : plugin_folders()) {
      const fs::path file = folder / file_name;
      std::error_code ignored;
      if (!fs::exists(file, ignored)) continue;
      auto publisher = load(file);
      if (publisher) {
        if (first_error) log::warning("{}", first_error->sentence());
        log::debug("ROS 2 publisher: {}", file.string());
        return publisher;
      }
      if (!first_error) first_error = publisher.error();
      break;
    }
  }
  if (first_error) return tl::unexpected(*first_error);
  return internal_error(
      "cannot publish for ROS 2", fmt::format("{} not found in the program's folder", files),
      "install cyclonedds-dev and cyclonedds-tools (Debian and Ubuntu), or set up ROS 2, and build again");
}

}  // namespace headroom::ros2
