// How the data lies that each malloc and free asks for.
//
// In a loop of malloc and free it is in the first-level cache whatever its place. Between two allocations of
// a runtime that launches kernels it is not, nor is the code: so both are kept together (fast_path.h).
#pragma once

#include <cstddef>

namespace headroom::tracer {

inline constexpr std::size_t kCacheLine = 64;

}  // namespace headroom::tracer
