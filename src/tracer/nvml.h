// What is in use on a GPU, from NVIDIA's management library: before there is a context the driver tells
// nothing. NVML comes with the driver, makes no context and takes no memory of the GPU.
#pragma once

#include <cstdint>

namespace headroom::tracer::nvml {

// By all processes together. False where there is no NVML, it does not know the device, or another thread is
// asking. The library is loaded by the first call and stays (tens of milliseconds): for the moments when a
// context is made.
bool used_bytes(const std::uint8_t (&uuid)[16], std::uint64_t& bytes);

// By this process. False, too, where NVML tells nothing by process (a Jetson's GPU), or knows it by another
// number, as in a container with process numbers of its own.
bool used_by_this_process(const std::uint8_t (&uuid)[16], std::uint64_t& bytes);

// After fork, in the child.
void reset_in_child();

}  // namespace headroom::tracer::nvml
