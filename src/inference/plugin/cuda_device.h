// The CUDA device of a session: its context, a stream, and the events that time a run. Headroom creates
// the stream and passes it to the runtime, so that copies, kernels and time stamps are ordered in one
// stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "cuda/driver.h"
#include "inference/backend_plugin.h"

namespace headroom::plugin {

// Creates the device's primary context, which all libraries of the process share, and keeps it until the
// process ends. Throws Failure: HR_ERROR_UNAVAILABLE if there is no driver or no such device.
const cuda::Driver& prepare_cuda(unsigned ordinal);
// Implements the plug-in call of this name: creates the device's context and returns facts about it.
// Throws Failure if `name` is not a CUDA device; the message contains `runs_on` ("cpu and cuda:N").
void prepare_device(const char* name, std::string_view runs_on, hr_device_facts& facts);

// All members but the destructor throw Failure.
class CudaDevice {
 public:
  explicit CudaDevice(unsigned ordinal);
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  unsigned ordinal() const { return ordinal_; }
  void* stream() const { return stream_; }
  // Makes this device current for the calling thread's driver calls.
  void make_current() const;
  // Like make_current(), but does not throw. For destructors, which may run on a thread that never used
  // the device (a pool's session that outlives the pool).
  void try_to_make_current() const;

  void begin_run();
  void copy_in(cuda::Pointer to, const void* from, std::size_t bytes) const;
  void copy_out(void* to, cuda::Pointer from, std::size_t bytes) const;
  void wait() const;
  // Waits until all work since begin_run() is complete.
  void end_run();
  // Time between begin_run() and end_run() by the device's clock; -1 before the first run.
  std::int64_t last_run_ns() const { return last_run_ns_; }

  const cuda::Driver& driver() const { return driver_; }

 private:
  void check(cuda::Code code, const char* call) const;
  void destroy();

  const cuda::Driver& driver_;
  unsigned ordinal_;
  cuda::Opaque context_ = nullptr, stream_ = nullptr, begin_ = nullptr, end_ = nullptr;
  std::int64_t last_run_ns_ = -1;
};

// The work of a stream, recorded once as a CUDA graph. Later, one call submits all of it again.
class DeviceGraph {
 public:
  explicit DeviceGraph(const CudaDevice& device) : device_(device) {}
  ~DeviceGraph() { forget(); }
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  bool is_captured() const { return exec_ != nullptr; }
  // Records the work that `work` submits to the device's stream, without running it. Throws Failure;
  // `work` may also throw. In both cases the stream's capture is ended.
  void capture(const std::function<void()>& work);
  // Runs the graph in the device's stream.
  void launch() const;
  void forget();

 private:
  const CudaDevice& device_;
  cuda::Opaque exec_ = nullptr;
};

// Pinned host memory, which the device reads and writes directly. Copies from and to other memory pass
// through a buffer of the driver, at a fraction of the speed.
class PinnedMemory {
 public:
  explicit PinnedMemory(const CudaDevice& device) : device_(&device) {}
  ~PinnedMemory() { release(); }
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&&) = delete;

  // Grows the memory to at least this size; the content is lost. Throws Failure.
  void* need(std::size_t bytes);
  void* data() const { return data_; }

 private:
  void release();
  const CudaDevice* device_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// An input in the caller's memory, which each run copies to the device. The memory is pinned while it is
// bound. A page can be pinned only once, so pinning fails for small buffers that share a page with another
// pinned buffer; then each run copies the input through pinned memory.
class HostInput {
 public:
  explicit HostInput(const CudaDevice& device) : device_(device), staging_(device) {}
  ~HostInput() { unpin(); }
  HostInput(const HostInput&) = delete;
  HostInput& operator=(const HostInput&) = delete;
  // Throws Failure.
  void bind(void* memory, std::size_t bytes);
  void copy_to(cuda::Pointer device_memory) const;

 private:
  void unpin();
  const CudaDevice& device_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  bool is_pinned_ = false;
  PinnedMemory staging_;
};

}  // namespace headroom::plugin
