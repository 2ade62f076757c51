#include "preload/fast_path.h"
#include "preload/real_functions.h"

namespace headroom::preload {

const bool kHasHostHooks = false;
const bool kIsAttached = false;

}  // namespace headroom::preload
