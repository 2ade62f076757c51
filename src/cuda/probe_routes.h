// The routes by which a program can allocate GPU memory. The probe tries each until it is refused, to prove
// that a limit holds.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace headroom::cuda {

struct RouteOutcome {
  std::string name;
  bool is_supported = true;  // by the driver
  Bytes allocated;           // before the first refusal, or the whole target
  std::string stopped_by;    // "CUDA_ERROR_OUT_OF_MEMORY"; empty: never refused
  bool is_refused = false;   // stopped by an out-of-memory error
};

// Tries each route in turn: allocates up to `target` bytes on the device, then frees them. Allocates in steps
// of `step` bytes; some routes use a different step. Errors: no driver, no such device, no context.
Result<std::vector<RouteOutcome>> try_routes(unsigned ordinal, Bytes target, Bytes step);

}  // namespace headroom::cuda
