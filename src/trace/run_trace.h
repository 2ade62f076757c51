// Implements `headroom trace`: checks, starts the command with the preload library, waits, and finishes the
// recordings.
#pragma once

#include "base/result.h"
#include "trace/trace_options.h"

namespace headroom::trace {

// Returns the command's exit code, or 128 + its number if a signal ended it. Returns an error if the command
// could not be started; then none of its code has run. Returns 3 if the command succeeded but left no
// recording.
Result<int> run_trace(const TraceOptions& options);

}  // namespace headroom::trace
