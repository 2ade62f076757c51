// cuGetProcAddress, the driver's own symbol lookup. The hook replaces the function that it finds by the
// tracer's hook, whatever version was requested. The loader's lookups are in symbol_lookup_hooks.cpp.
#include "preload/driver_calls.h"
#include "preload/process.h"
#include "preload/thread_state.h"

namespace headroom::preload::driver {

HEADROOM_HOOK Result cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  if (!find_driver() || real.cuGetProcAddress == nullptr) return kNotFound;
  const Result result = real.cuGetProcAddress(name, function, version, flags);
  if (result == kSuccess && function != nullptr && is_traced(thread_local_state))
    *function = substitute(nullptr, *function);
  return result;
}

HEADROOM_HOOK Result cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                                         int* status) {
  if (!find_driver() || real.cuGetProcAddress_v2 == nullptr) return kNotFound;
  const Result result = real.cuGetProcAddress_v2(name, function, version, flags, status);
  if (result == kSuccess && function != nullptr && is_traced(thread_local_state))
    *function = substitute(nullptr, *function);
  return result;
}

}  // namespace headroom::preload::driver
