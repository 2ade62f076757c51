// How the data lies that each malloc and free asks for.
//
// In a loop of malloc and free it is in the first-level cache whatever its place. Between two allocations of
// a runtime that launches kernels it is not: there a pair cost some 60 ns (ONNX Runtime's resnet50 on an
// H200, bench/results/gpu_trace_cost.md). So it is kept together: seven lines of the
// cache for a pair, where it was in ten or eleven.
#pragma once

#include <cstddef>

namespace headroom::tracer {

inline constexpr std::size_t kCacheLine = 64;

}  // namespace headroom::tracer
