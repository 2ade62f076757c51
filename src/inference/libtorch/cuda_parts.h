// What a session asks of LibTorch's CUDA half. Two files define it: cuda_parts.cpp where Headroom is built
// against a LibTorch with CUDA, no_cuda_parts.cpp elsewhere.
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>

namespace headroom::libtorch {

// Throws plugin::Failure of HR_ERROR_UNAVAILABLE where there is no such half.
void require_cuda();
// A stream of the driver's as LibTorch takes it.
c10::Stream stream_of(void* stream, unsigned ordinal);

// Of the caching allocator of a device, which all modules of the process share. Bytes, and how often.
struct CachingFigures {
  std::int64_t allocated = 0, reserved = 0, peak = 0;
  std::int64_t allocations = 0, segments = 0;
};
CachingFigures caching_figures(unsigned ordinal);
// Gives all blocks that nobody uses back to the driver.
void empty_caches();
// The allocator keeps to this share of the device's memory, and says out of memory beyond it. What is not
// allocated through it (the context, kernels, cuDNN's own) does not count.
void set_memory_fraction(unsigned ordinal, double fraction);

}  // namespace headroom::libtorch
