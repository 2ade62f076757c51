// A thread that samples GPU memory which no driver call reports. The driver takes memory for loaded kernels,
// stacks and streams, and graphs get memory at launch. It samples once a second, and graph memory every 10 ms
// from the first graph with memory on. The recording gets the samples as figures.
//
// With PyTorch on an H200 the driver takes 610 MiB at the first launch. It takes 12 MiB more when a
// convolution network has run, and 70 MiB for another stream. A graph's memory comes with its first launch
// (benchmarks/results/gpu_ledger.md). Launches are not hooked, so that they cost nothing; a hook there would
// not see half of this memory anyway.
#pragma once

#include "preload/device_hooks.h"

namespace headroom::preload {

// Starts sampling a device that has a context. Does nothing without a recording.
void watch_device(unsigned device);
// Starts sampling graph memory: a device has its first graph with memory.
void watch_graphs();
// In the child after fork, which does not have the thread.
void reset_watch_in_child();

namespace driver {
// Records the driver's growth as a separate figure: NVML's figure for this process, minus its allocations,
// its modules and its contexts' size at creation.
void update_driver_growth(DriverHook& hook, unsigned device);
}  // namespace driver

}  // namespace headroom::preload
