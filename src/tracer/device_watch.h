// What no call tells of a GPU: what the driver takes for itself (the kernels that a launch loads, stacks and
// streams), and what graphs took when they were launched. A thread asks, and writes it as figures: once
// a second, and for the memory of graphs twenty times, from the first graph that has some.
//
// With PyTorch on an H200 610 MiB after the first launch, 12 more when a network of convolutions has run, 70
// where another stream is used; a graph's memory comes with its first launch (bench/results/gpu_ledger.md).
// Launches are not hooked, so that they cost nothing, and would not tell the half of it.
#pragma once

#include "tracer/device_hooks.h"

namespace headroom::tracer {

// From now on, in this process, once; where there is a recording. For a device with a context.
void watch_device(unsigned device);
// A device has its first graph with memory.
void watch_graphs();
// After fork, in the child.
void reset_watch_in_child();

namespace driver {
// What NVML says that this process has of the device, beyond what it was given, its modules and what its
// contexts were when they were made: a figure of its own.
void look_at_driver_growth(DriverHook& hook, unsigned device);
}  // namespace driver

}  // namespace headroom::tracer
