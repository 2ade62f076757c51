#include "inference/libtorch/cuda_parts.h"

#ifdef HEADROOM_LIBTORCH_HAS_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/api/include/torch/version.h>

// Older versions have other functions for a graph's memory pool.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
#define HEADROOM_LIBTORCH_HAS_GRAPHS
#include <ATen/cuda/CUDAGraph.h>
#endif

#include <memory>
#include <utility>
#endif

#ifndef HEADROOM_LIBTORCH_HAS_GRAPHS
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

#ifdef HEADROOM_LIBTORCH_HAS_GRAPHS

namespace {

using at::cuda::CUDAGraph;

CUDAGraph& graph_at(void* graph) { return *static_cast<CUDAGraph*>(graph); }

// Ends a capture that failed. LibTorch's own functions stop at the first error, so each one is called. The
// object itself is not destroyed: in some versions the allocator keeps a pointer to it.
void abandon(std::unique_ptr<CUDAGraph> graph, c10::DeviceIndex device, c10::MempoolId_t pool) {
  const auto try_to = [](auto&& step) {
    try {
      step();
    } catch (const std::exception&) {  // already done, or never begun
    }
  };
  CUDAGraph* const kept = graph.release();
  try_to([&] { kept->capture_end(); });
  try_to([&] { caching::endAllocateToPool(device, pool); });
  try_to([&] { caching::releasePool(device, pool); });
}

}  // namespace

bool can_capture() { return true; }

void RunGraph::capture(const std::function<void()>& work) {
  forget();
  const c10::DeviceIndex device = c10::cuda::getCurrentCUDAStream().device_index();
  const c10::MempoolId_t pool = at::cuda::graph_pool_handle();
  auto graph = std::make_unique<CUDAGraph>();
  try {
    // Other threads may allocate device memory during the capture.
    graph->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    work();
    graph->capture_end();
  } catch (...) {
    abandon(std::move(graph), device, pool);
    throw;
  }
  graph_ = graph.release();
}

void RunGraph::replay() { graph_at(graph_).replay(); }

void RunGraph::forget() { delete static_cast<CUDAGraph*>(std::exchange(graph_, nullptr)); }

#else

bool can_capture() { return false; }

// Never called, because a session without can_capture() rejects captures.
void RunGraph::capture(const std::function<void()>&) {
  throw plugin::failed("this LibTorch cannot capture CUDA graphs");
}
void RunGraph::replay() {}
void RunGraph::forget() {}

#endif

}  // namespace headroom::libtorch
