// The functions that a session needs from LibTorch's CUDA libraries. Without them, a session runs on the CPU
// only.
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <functional>

namespace headroom::libtorch {

// Throws plugin::Failure (HR_ERROR_UNAVAILABLE) if LibTorch was built without CUDA.
void require_cuda();
// Converts a driver stream to a LibTorch stream.
c10::Stream stream_of(void* stream, unsigned ordinal);

// Figures of a device's caching allocator, which all modules of the process share.
struct CachingFigures {
  std::int64_t allocated = 0, reserved = 0, peak = 0;  // bytes
  std::int64_t allocations = 0, segments = 0;          // counts
};
CachingFigures caching_figures(unsigned ordinal);
// Returns all unused blocks to the driver.
void empty_caches();
// Limits the caching allocator to this share of the device's memory; beyond it, the allocator reports out
// of memory. Memory that is not allocated through it (the context, kernels, cuDNN's own memory) does not
// count.
void set_memory_fraction(unsigned ordinal, double fraction);

// Whether this LibTorch can capture runs as CUDA graphs.
bool can_capture();

// A run of a module, captured as a CUDA graph. Its memory lies in a pool of its own in the caching allocator.
class RunGraph {
 public:
  RunGraph() = default;
  ~RunGraph() { forget(); }
  RunGraph(const RunGraph&) = delete;
  RunGraph& operator=(const RunGraph&) = delete;

  bool is_captured() const { return graph_ != nullptr; }
  // Records what `work` submits to LibTorch's current stream, without running it. Tensors that `work` made
  // and that outlive it get their content at each replay. Throws what `work` or LibTorch throws; then nothing
  // is captured, and the stream can be used again.
  void capture(const std::function<void()>& work);
  // Submits the captured work to LibTorch's current stream.
  void replay();
  // Releases the graph. Its pool goes with the next empty_caches(), once no tensor of the run is left.
  void forget();

 private:
  void* graph_ = nullptr;  // an at::cuda::CUDAGraph
};

}  // namespace headroom::libtorch
