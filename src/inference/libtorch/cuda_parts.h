// The functions that a session needs from LibTorch's CUDA libraries. Without them, a session runs on the CPU
// only.
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>

namespace headroom::libtorch {

// Throws plugin::Failure (HR_ERROR_UNAVAILABLE) if LibTorch was built without CUDA.
void require_cuda();
// Converts a driver stream to a LibTorch stream.
c10::Stream stream_of(void* stream, unsigned ordinal);

// Figures of a device's caching allocator, which all modules of the process share.
struct CachingFigures {
  std::int64_t allocated = 0, reserved = 0, peak = 0;  // bytes
  std::int64_t allocations = 0, segments = 0;          // counts
};
CachingFigures caching_figures(unsigned ordinal);
// Returns all unused blocks to the driver.
void empty_caches();
// Limits the caching allocator to this share of the device's memory; beyond it, the allocator reports out
// of memory. Memory that is not allocated through it (the context, kernels, cuDNN's own memory) does not
// count.
void set_memory_fraction(unsigned ordinal, double fraction);

}  // namespace headroom::libtorch
