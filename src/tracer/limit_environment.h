// While a limit on GPU memory is kept, programs that are started keep it, too, also those that are given an
// environment without it (env -i, a launcher that makes its own): what the library needs is put back.
//
// Called where exec is, in a child after fork and in a signal handler: no allocation.
#pragma once

#include <cstddef>

namespace headroom::tracer {

using Strings = char* const*;

bool keeps_device_limit();
// What keep_limit() needs; 0 if nothing is missing.
std::size_t bytes_to_keep_limit(Strings environment);
// The environment with what was missing. It points into the old one, and into `memory`.
Strings keep_limit(Strings environment, char* memory);

// The same for calls of the C library that start a program with the environment of this process (system,
// popen): what is missing is put back into it. These may allocate.
void put_limit_back();

// The frame of this function holds the environment until the call is over.
template <class Call>
int with_limit_kept(Strings environment, const Call& call) {
  const std::size_t bytes = bytes_to_keep_limit(environment);
  if (__builtin_expect(bytes == 0, 1)) return call(environment);
  return call(keep_limit(environment, static_cast<char*>(__builtin_alloca(bytes))));
}

}  // namespace headroom::tracer
