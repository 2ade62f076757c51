// ONNX Runtime in a program that knows nothing of Headroom: each session's loading and each of its runs
// becomes a scope, and the runtime's own profile of the first runs is kept, so that the analysis can tell the
// nodes apart.
//
// How: an ONNX Runtime library hands out one table of functions (OrtApi). It is ours to see whenever the
// library is loaded, by whatever way (linked, dlopen'ed, as another library's dependency), and the functions
// of interest are replaced in that table. Positions in it never change between versions: the table only
// grows. What is not reached: a runtime that is compiled into its caller and used past the table (Python's
// onnxruntime).
#pragma once

#include <cstdint>

namespace headroom::tracer {

// Wraps the table of the ONNX Runtime whose OrtGetApiBase is at this address, in a library that is linked.
// Does nothing the second time. False: another thread is at it, ask again. Waits for no lock, so it may be
// called inside of a hook and in a child after fork.
bool hook_onnxruntime(std::uint64_t get_api_base);

}  // namespace headroom::tracer
