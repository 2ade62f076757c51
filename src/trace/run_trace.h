// The conductor of `headroom trace`: checks, starts the command with the preload library, waits, and finishes
// what it recorded.
#pragma once

#include "base/result.h"
#include "trace/trace_options.h"

namespace headroom::trace {

// The command's own exit status, 128 + its number if a signal ended it. An error if it could not be started
// as it should, which is before anything of it ran. A command that succeeds and leaves no recording gives 3.
Result<int> run_trace(const TraceOptions& options);

}  // namespace headroom::trace
