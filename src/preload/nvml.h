// Memory in use on a GPU, from NVIDIA's management library (NVML). The driver has no figures before there is
// a context. NVML comes with the driver, creates no context and takes no GPU memory.
#pragma once

#include <cstdint>

namespace headroom::preload::nvml {

// Bytes used by all processes together. False where NVML is missing, does not know the device, or is queried
// by another thread. The first call loads the library, which takes tens of milliseconds; it stays loaded.
// Meant for the moments when a context is created.
bool used_bytes(const std::uint8_t (&uuid)[16], std::uint64_t& bytes);

// Bytes used by this process. Returns false, too, where NVML has no figures per process (a Jetson's GPU). The
// same holds in a container with its own PIDs, where NVML knows the process by another PID.
bool used_by_this_process(const std::uint8_t (&uuid)[16], std::uint64_t& bytes);

// In the child after fork, where another thread of the parent may have been querying NVML.
void reset_in_child();

}  // namespace headroom::preload::nvml
