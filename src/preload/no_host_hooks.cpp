#include "preload/fast_path.h"

namespace headroom::preload {

const bool kHasHostHooks = false;

}  // namespace headroom::preload
