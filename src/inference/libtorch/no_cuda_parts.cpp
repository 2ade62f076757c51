#include "inference/libtorch/cuda_parts.h"
#include "inference/plugin/plugin_failure.h"

namespace headroom::libtorch {

void require_cuda() {
  throw plugin::Failure{
      HR_ERROR_UNAVAILABLE,
      "the LibTorch that Headroom was built with is of the CPU alone; build it with one that has CUDA "
      "(-DHEADROOM_LIBTORCH=DIR, docs/libtorch.md), or use --device cpu"};
}

// No session of a device is ever made, so nothing below is called.
c10::Stream stream_of(void*, unsigned) { require_cuda(), __builtin_unreachable(); }
CachingFigures caching_figures(unsigned) { return {}; }
void empty_caches() {}
void set_memory_fraction(unsigned, double) {}

}  // namespace headroom::libtorch
