// Whether this library stands in front of malloc, operator new and mmap.
//
// libheadroom_trace.so does. libheadroom_trace_gpu.so is made of the same objects without those hooks, for
// `headroom trace --only gpu` and for the ledger alone: there the program's malloc is bound straight to the C
// library. A hook that only forwards costs 1.5 ns a call, and PyTorch makes 8,600 of them in a pass of
// resnet50 that takes 3 ms while the GPU waits.
#pragma once

namespace headroom::tracer {

extern const bool kHasHostHooks;

}  // namespace headroom::tracer
