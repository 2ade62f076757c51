// Implements `headroom trace --pid`: the recorder comes into a running process, and leaves it again.
#pragma once

#include <sys/types.h>

#include <optional>

#include "trace/run_trace.h"

namespace headroom::trace {

struct AttachOptions {
  pid_t pid = 0;
  std::optional<Nanoseconds> duration;  // nothing: until a signal or the process's end
  TraceOptions trace;                   // `command` and the limits of GPU memory are not used
};

// Records until the time is over, SIGINT, SIGTERM or SIGHUP arrives, or the process ends. Prints the summary.
// Returns 0. The error says why it cannot attach; then the process is as it was.
Result<int> run_attach(const AttachOptions& options);

}  // namespace headroom::trace
