// Layout of the data that each malloc and free reads.
//
// In a loop of malloc and free this data stays in the first-level cache wherever it lies. Between two
// allocations of a runtime that launches kernels, neither the data nor the code is cached. So both are kept
// compact (fast_path.h).
#pragma once

#include <cstddef>

namespace headroom::preload {

inline constexpr std::size_t kCacheLine = 64;

}  // namespace headroom::preload
