// What is in use on a GPU, from NVIDIA's management library: before there is a context the driver tells
// nothing. NVML comes with the driver, makes no context and takes no memory of the GPU.
#pragma once

#include <cstdint>

namespace headroom::tracer::nvml {

// By all processes together. False where there is no NVML, or it does not know the device. The library is
// loaded by the first call and stays (tens of milliseconds): for the moments when a context is made.
bool used_bytes(const std::uint8_t (&uuid)[16], std::uint64_t& bytes);

// By this process. False, too, where NVML tells nothing by process (a Jetson's GPU), or does not have this
// one, as in a container that it numbers otherwise; there a process alone on the device is taken for this
// one.
bool used_by_this_process(const std::uint8_t (&uuid)[16], std::uint64_t& bytes);

}  // namespace headroom::tracer::nvml
