// How a worker handles RLIMIT_DATA. This limit also refuses memory that is only reserved, such as untouched
// thread stacks; then a thread cannot start.
#pragma once

#include <string_view>

#include "bench/worker/events.h"

namespace headroom::bench {

// Sets the default stack of new threads to 1 MiB instead of glibc's 8 MiB; the main thread keeps its stack.
// Does nothing unless RLIMIT_DATA is set and glibc supports it.
void use_small_stacks_under_a_data_limit();

// True if RLIMIT_DATA is set and so little of it is left that the stack of one thread may not fit.
bool is_near_data_limit();

// True if the message is that of a system call that failed for lack of memory: a thread (EAGAIN) or a mapping
// (ENOMEM).
bool mentions_refused_memory(std::string_view message);

// From now on, an uncaught exception caused by a failed allocation or thread start is sent as an `oom` error
// before the process aborts. `events` must outlive the process's work.
void report_refusals_at_terminate(WorkerEvents& events);

}  // namespace headroom::bench
