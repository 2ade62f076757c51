// Whether this library intercepts malloc, operator new and mmap.
//
// libheadroom_trace.so does. libheadroom_trace_gpu.so consists of the same objects without those hooks, for
// `headroom trace --only gpu` and for runs that need only the ledger. There the program calls the C library's
// malloc directly. A hook that only forwards costs 1.5 ns a call. PyTorch makes 8,600 calls in a pass of
// resnet50, which takes 3 ms, and the GPU waits meanwhile.
#pragma once

namespace headroom::preload {

extern const bool kHasHostHooks;

}  // namespace headroom::preload
