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

#include "tracer/call_frame.h"

namespace headroom::tracer {

// Wraps the table of the ONNX Runtime whose OrtGetApiBase is at this address, in a library that is linked.
// Does nothing the second time. False: another thread is at it, ask again. Waits for no lock, so it may be
// called inside of a hook and in a child after fork.
bool hook_onnxruntime(std::uint64_t get_api_base);

// The process is about to end without its exit handlers: the profiles that the runtime still keeps are
// written out. Not inside of a signal handler, nor of the runtime or an allocator, where the thread may hold
// what the runtime needs; nor of a session that runs in another thread (at_once: waits a second for that to
// end).
enum class ProcessEnd { at_once, by_abort };
void end_profiles_before_death(const CallFrame& caller, ProcessEnd end);

}  // namespace headroom::tracer
