// Used with a LibTorch without CUDA, or one before 2.2, which does not report its allocations.
#include "memory_tracer/torch_sources.h"

namespace headroom::memory_tracer {

void watch_cuda_allocator() {}
std::vector<DeviceTotals> device_totals() { return {}; }
bool has_cuda() { return false; }

}  // namespace headroom::memory_tracer
