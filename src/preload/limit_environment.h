// Keeps a GPU memory limit in force in programs that this process starts. A program may get an environment
// without the limit's variables (`env -i`, a launcher that builds its own). The tracer restores them.
//
// This runs inside exec, in a child after fork and in signal handlers, so it never allocates.
#pragma once

#include <cstddef>

namespace headroom::preload {

using Strings = char* const*;

bool has_device_limit();
// Bytes of memory that restore_limit() needs; 0 if no variable is missing.
std::size_t bytes_to_restore_limit(Strings environment);
// The environment plus the missing variables. The result points into `environment` and `memory`.
Strings restore_limit(Strings environment, char* memory);

// The same for C library functions that start a program with this process's own environment (system, popen):
// restores the missing variables in `environ`. May allocate.
void restore_limit_in_environ();

// The restored environment lives in this function's stack frame until the call returns.
template <class Call>
int call_with_limit(Strings environment, const Call& call) {
  const std::size_t bytes = bytes_to_restore_limit(environment);
  if (__builtin_expect(bytes == 0, 1)) return call(environment);
  return call(restore_limit(environment, static_cast<char*>(__builtin_alloca(bytes))));
}

}  // namespace headroom::preload
