#include "preload/host_hooks.h"

namespace headroom::preload {

const bool kHasHostHooks = false;

}  // namespace headroom::preload
