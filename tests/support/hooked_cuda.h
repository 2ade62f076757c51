// The hooks of the GPU's driver in a program of their own, in front of the fake driver: so they can be built
// with a sanitizer, which a library that stands before every malloc cannot be.
#pragma once

#include "cli/cuda_random_routes.h"
#include "tracer/driver_calls.h"

namespace cuda_program {

// Once in a process, before the first call. `recording` may be empty: the ledger alone.
inline void stand_before_driver(const std::string& recording, std::uint64_t limit) {
  const std::string options = std::string("gpu,stacks=off,device=") + std::to_string(limit);
  ::setenv("HEADROOM_TRACE_FILE", recording.c_str(), 1);
  ::setenv("HEADROOM_TRACE_OPTIONS", (recording.empty() ? options + ",ledger=1" : options).c_str(), 1);
  way = "dlsym";
  symbol_of = [](void* from, const char* name) {
    return headroom::tracer::driver::substitute(name, dlsym(from, name));
  };
  library = dlopen(HEADROOM_FAKE_CUDA "/libcuda.so.1", RTLD_NOW);
  if (library == nullptr) give_up("no driver", dlerror(), 0);
  start_context();
}

// Whether nothing is charged any more: the whole limit is to be had.
inline bool has_all(std::uint64_t limit) {
  Plain all;
  std::uint64_t cost = 0;
  const bool has = all.take(limit, cost) == kSuccess;
  all.free_all();
  return has;
}

}  // namespace cuda_program
