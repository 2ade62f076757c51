// The sources of events: PyTorch's allocators for the CPU and for CUDA devices.
#pragma once

#include <cstdint>
#include <vector>

#include "memory_tracer/account.h"

namespace headroom::memory_tracer {

// While watched, CPU tensors are allocated through a wrapper around the existing allocator that reports to
// session.h; afterwards the original is restored. Blocks allocated meanwhile keep a deleter that reports
// their release. Calls nest.
void watch_cpu_allocator();
void unwatch_cpu_allocator();

// The totals of a device's allocator when a trace begins.
struct DeviceTotals {
  Device device;
  std::int64_t reserved, allocated;
};
// PyTorch cannot remove the caching allocator's tracker. So the tracker stays, and does nothing while no
// trace is open.
void watch_cuda_allocator();
std::vector<DeviceTotals> device_totals();
// Whether this library was built for CUDA and a device exists.
bool has_cuda();

}  // namespace headroom::memory_tracer
