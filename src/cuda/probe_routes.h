// The ways by which a program can take a GPU's memory, each tried until it is refused: what a limit on it is
// worth is what stops them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace headroom::cuda {

struct RouteOutcome {
  std::string name;
  bool is_there = true;     // the driver has this way
  Bytes taken;              // before the first refusal, or all that was asked for
  std::string stopped_by;   // "CUDA_ERROR_OUT_OF_MEMORY"; empty: nothing stopped it
  bool is_refused = false;  // it was stopped for want of memory
};

// Takes at most `target` of the device by each way in turn, in steps of `step` or of its own, and gives it
// back before the next. Errors: no driver, no such device, no context.
Result<std::vector<RouteOutcome>> try_routes(unsigned ordinal, Bytes target, Bytes step);

}  // namespace headroom::cuda
