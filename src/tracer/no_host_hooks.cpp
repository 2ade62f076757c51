#include "tracer/host_hooks.h"

namespace headroom::tracer {

const bool kHasHostHooks = false;

}  // namespace headroom::tracer
