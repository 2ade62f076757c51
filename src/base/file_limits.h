// Limits of what readers take from files of strangers (docs/damaged-files.md).
#pragma once

#include "base/units.h"

namespace headroom {

// Files of /proc report no size, and some have no end. Readers take this much of a file without a size.
inline constexpr Bytes kLargestWithoutSize = mebibytes(16);

}  // namespace headroom
