#include "inference/libtorch/cuda_parts.h"

#ifdef HEADROOM_LIBTORCH_HAS_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#else
#include "inference/plugin/plugin_failure.h"
#endif

namespace headroom::libtorch {

#ifdef HEADROOM_LIBTORCH_HAS_CUDA

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

// StatType::AGGREGATE; its namespace moved between versions, its value did not.
constexpr std::size_t kAll = 0;

c10::DeviceIndex index_of(unsigned ordinal) { return static_cast<c10::DeviceIndex>(ordinal); }

}  // namespace

void require_cuda() {}

c10::Stream stream_of(void* stream, unsigned ordinal) {
  return c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), index_of(ordinal)).unwrap();
}

CachingFigures caching_figures(unsigned ordinal) {
  const auto stats = caching::getDeviceStats(index_of(ordinal));
  return {stats.allocated_bytes.at(kAll).current, stats.reserved_bytes.at(kAll).current,
          stats.allocated_bytes.at(kAll).peak, stats.allocation.at(kAll).allocated,
          stats.segment.at(kAll).allocated};
}

void empty_caches() { caching::emptyCache(); }

void set_memory_fraction(unsigned ordinal, double fraction) {
  caching::setMemoryFraction(fraction, index_of(ordinal));
}

#else

void require_cuda() {
  throw plugin::unavailable(
      "Headroom was built with a LibTorch without CUDA; build it with one that has CUDA "
      "(headroom build-plugin libtorch, docs/libtorch.md), or use --device cpu");
}

// Never called, because require_cuda() prevents sessions on a device.
c10::Stream stream_of(void*, unsigned) { require_cuda(), __builtin_unreachable(); }
CachingFigures caching_figures(unsigned) { return {}; }
void empty_caches() {}
void set_memory_fraction(unsigned, double) {}

#endif

}  // namespace headroom::libtorch
