// Links the hooks of the CUDA driver into a test program, with the fake driver behind them. So they can be
// built with a sanitizer; the preload library cannot, because it replaces malloc.
#pragma once

#include "cli/cuda_random_routes.h"
#include "preload/driver_calls.h"

namespace cuda_program {

// Call once in a process, before the first driver call. An empty `recording` runs only the ledger.
inline void install_hooks(const std::string& recording, std::uint64_t limit) {
  const std::string options = std::string("gpu,stacks=off,device=") + std::to_string(limit);
  ::setenv("HEADROOM_TRACE_FILE", recording.c_str(), 1);
  ::setenv("HEADROOM_TRACE_OPTIONS", (recording.empty() ? options + ",ledger=1" : options).c_str(), 1);
  lookup = "dlsym";
  symbol_of = [](void* from, const char* name) {
    return headroom::preload::driver::substitute(name, dlsym(from, name));
  };
  library = dlopen(HEADROOM_FAKE_CUDA "/libcuda.so.1", RTLD_NOW);
  if (library == nullptr) fail("no driver", dlerror(), 0);
  start_context();
}

// Returns whether the whole limit can be allocated, so nothing is charged.
inline bool is_whole_limit_available(std::uint64_t limit) { return fits_once(limit); }

}  // namespace cuda_program
