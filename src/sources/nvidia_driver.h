// Checks whether NVIDIA's driver is installed, without loading any of it: NVML alone adds 19 MiB to the
// process that opens it.
#pragma once

#include <filesystem>
#include <string_view>

namespace headroom::sources {

// True if the kernel has the driver: that of desktops, of Jetson, or of Windows Subsystem for Linux. Also
// true if a folder of `library_path` (colon-separated, like LD_LIBRARY_PATH) contains the NVML library.
// `root` is the root prefix of SystemSampler.
bool has_nvidia_driver(const std::filesystem::path& root, std::string_view library_path);
// For this machine and this process's LD_LIBRARY_PATH.
bool has_nvidia_driver();

}  // namespace headroom::sources
