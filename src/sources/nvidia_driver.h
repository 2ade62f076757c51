// Whether NVIDIA's driver is here, told without loading any of it: NVML alone takes 19 MiB of the process
// that opens it.
#pragma once

#include <filesystem>
#include <string_view>

namespace headroom::sources {

// True where the kernel has the driver (a machine's own module, Jetson's, that of Windows Subsystem for
// Linux), or where a folder of `library_path` (colon-separated, as LD_LIBRARY_PATH) holds the library of its
// management. `root` is as of SystemSampler.
bool has_nvidia_driver(const std::filesystem::path& root, std::string_view library_path);
// Of this machine and this process's LD_LIBRARY_PATH.
bool has_nvidia_driver();

}  // namespace headroom::sources
