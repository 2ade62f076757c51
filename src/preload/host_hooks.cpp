#include "preload/fast_path.h"

namespace headroom::preload {

const bool kHasHostHooks = true;

}  // namespace headroom::preload
