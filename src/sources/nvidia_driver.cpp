#include "sources/nvidia_driver.h"

#include <array>
#include <cstdlib>

#include "base/text.h"
#include "sources/nvml_library.h"

namespace headroom::sources {
namespace {
namespace fs = std::filesystem;

constexpr std::array<const char*, 5> kSigns{
    "proc/driver/nvidia/version",
    "dev/nvidiactl",
    "dev/nvgpu",       // Jetson
    "dev/nvhost-gpu",  // Jetson, older
    "dev/dxg",         // Windows Subsystem for Linux
};

}  // namespace

bool has_nvidia_driver(const fs::path& root, std::string_view library_path) {
  std::error_code ignored;
  for (const char* sign : kSigns)
    if (fs::exists(root / sign, ignored)) return true;
  for (const std::string_view folder : split(library_path, ':'))
    if (!folder.empty() && fs::exists(fs::path(folder) / nvml::Library::kFileName, ignored)) return true;
  return false;
}

bool has_nvidia_driver() {
  const char* library_path = std::getenv("LD_LIBRARY_PATH");
  return has_nvidia_driver("/", library_path == nullptr ? "" : library_path);
}

}  // namespace headroom::sources
