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

namespace headroom::tracer {

// Looks for an ONNX Runtime behind `handle` (RTLD_DEFAULT, or what dlopen returned) and wraps its table. Does
// nothing the second time, and nothing without one. Call it outside of any hook's guard.
void hook_onnxruntime(void* handle);

}  // namespace headroom::tracer
