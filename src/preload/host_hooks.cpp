#include "preload/host_hooks.h"

namespace headroom::preload {

const bool kHasHostHooks = true;

}  // namespace headroom::preload
