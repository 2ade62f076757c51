// What a worker does about RLIMIT_DATA, which refuses memory that is only reserved: stacks of threads that
// nobody touches, and with them the threads.
#pragma once

#include <string_view>

#include "bench/worker_events.h"

namespace headroom::bench {

// 1 MiB instead of the 8 MiB that glibc takes for the stack of each thread that asks for none; the main
// thread keeps its own. Only where RLIMIT_DATA is set, and where glibc can.
void use_small_stacks_under_a_data_limit();

// True if RLIMIT_DATA is set and this process has so little left of it that the stack of one thread may not
// fit.
bool is_near_data_limit();

// The words of a system call that was refused for want of memory: a thread (EAGAIN), a mapping (ENOMEM).
bool names_a_refusal(std::string_view message);

// From now on an exception that nobody catches, and that a refused allocation or thread explains, is sent as
// an `oom` error before the process aborts. `events` must outlive the process's work.
void report_refusals_at_terminate(WorkerEvents& events);

}  // namespace headroom::bench
