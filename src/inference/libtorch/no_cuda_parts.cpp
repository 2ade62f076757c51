#include "inference/libtorch/cuda_parts.h"
#include "inference/plugin/plugin_failure.h"

namespace headroom::libtorch {

void require_cuda() {
  throw plugin::Failure{HR_ERROR_UNAVAILABLE,
                        "Headroom was built with a LibTorch without CUDA; build it with one that has CUDA "
                        "(-DHEADROOM_LIBTORCH=DIR, docs/libtorch.md), or use --device cpu"};
}

// Never called, because require_cuda() prevents sessions on a device.
c10::Stream stream_of(void*, unsigned) { require_cuda(), __builtin_unreachable(); }
CachingFigures caching_figures(unsigned) { return {}; }
void empty_caches() {}
void set_memory_fraction(unsigned, double) {}

}  // namespace headroom::libtorch
