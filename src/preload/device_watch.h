// A thread that samples GPU memory which no driver call reports. The driver takes memory for loaded kernels,
// stacks and streams, and graphs get memory at launch. It samples once a second, and graph memory every 10 ms
// from the first graph with memory on. The recording gets the samples as figures.
//
// With PyTorch on an H200 the driver takes 610 MiB at the first launch. It takes 12 MiB more when a
// convolution network has run, and 70 MiB for another stream. A graph's memory comes with its first launch
// (benchmarks/results/gpu_ledger.md). Launches are not hooked, so that they cost nothing; a hook there would
// not see half of this memory anyway.
#pragma once

namespace headroom::preload {

// Samples a device; `with_growth`: not only graph memory.
using SampleDevice = void (*)(unsigned device, bool with_growth);

// Starts sampling a device that has a context, by calls of `sample`. Does nothing without a recording.
void watch_device(unsigned device, SampleDevice sample);
// Starts sampling graph memory: a device has its first graph with memory.
void watch_graphs();
// In the child after fork, which does not have the thread.
void reset_watch_in_child();

}  // namespace headroom::preload
