// Where the events come from: PyTorch's allocators, of the CPU and of CUDA devices.
#pragma once

#include <cstdint>
#include <vector>

#include "memory_tracer/account.h"

namespace headroom::memory_tracer {

// While somebody watches, what tensors are given on the CPU comes from an allocator that asks the one that
// was there and tells session.h; afterwards that one is back. Blocks that were given meanwhile keep a deleter
// that tells of their release. Calls nest.
void watch_cpu_allocator();
void unwatch_cpu_allocator();

// What a device's allocator says that it has, when a trace begins.
struct DeviceTotals {
  Device device;
  std::int64_t reserved, allocated;
};
// The caching allocator cannot be told to stop: its tracker stays, and passes by when nobody watches.
void watch_cuda_allocator();
std::vector<DeviceTotals> device_totals();
// Whether this library was built for CUDA devices, and there is one.
bool has_cuda();

}  // namespace headroom::memory_tracer
