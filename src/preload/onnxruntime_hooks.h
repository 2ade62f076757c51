// Traces ONNX Runtime in unmodified programs: loading a session and each of its runs becomes a scope. The
// runtime's own profile of the first runs is kept, so that the analysis can attribute memory to nodes.
//
// How it works: the ONNX Runtime library returns one table of functions (OrtApi). The tracer finds that table
// whenever the library is loaded (linked, with dlopen, as a dependency) and replaces the functions of
// interest in it. Positions in the table never change between versions, because the table only grows. Not
// supported: a runtime that is compiled into its caller and used without the table (Python's onnxruntime).
#pragma once

#include <cstdint>

#include "preload/call_frame.h"

namespace headroom::preload {

// Wraps the table of the ONNX Runtime library whose OrtGetApiBase is at this address. The library must be
// fully linked. A second call does nothing. Returns false if another thread is doing the same; try again
// later. Never waits for a lock, so it may be called inside a hook and in a forked child.
bool hook_onnxruntime(std::uint64_t get_api_base);

// Called when the process is about to end without running its exit handlers: writes the profiles that the
// runtime still keeps. Does nothing inside a signal handler, the runtime or an allocator, where the thread
// may hold locks that the runtime needs. Skips sessions that are running in another thread; at_once waits up
// to a second for them.
enum class ProcessEnd { at_once, by_abort };
void end_profiles_before_death(const CallFrame& caller, ProcessEnd end);

}  // namespace headroom::preload
