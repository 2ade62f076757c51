#include "tracer/host_hooks.h"

namespace headroom::tracer {

const bool kHasHostHooks = true;

}  // namespace headroom::tracer
