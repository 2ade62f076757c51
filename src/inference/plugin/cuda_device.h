// The CUDA device that a session runs on: its context, a stream of Headroom's own and the events that time a
// run. The runtime is given the stream, so that copies, kernels and time stamps are in one order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cuda/driver.h"
#include "inference/backend_plugin.h"

namespace headroom::plugin {

// Makes the device's primary context, which every library of the process uses, and keeps it until the process
// ends. Throws Failure: HR_ERROR_UNAVAILABLE without a driver or a device of that number.
const cuda::Driver& prepare_cuda(unsigned ordinal);
// For the call of this name: makes the device ready and says what it is. `runs_on`, "cpu and cuda:N", is for
// the Failure of a name that is no CUDA device.
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
  // The calling thread's driver calls go to this device.
  void make_current() const;
  // The same for destructors, which may run in a thread that never had it (a pool's lease that outlives it).
  void try_to_make_current() const;

  void begin_run();
  void copy_in(cuda::Pointer to, const void* from, std::size_t bytes) const;
  void copy_out(void* to, cuda::Pointer from, std::size_t bytes) const;
  void wait() const;
  // Waits until all is done that was begun.
  void end_run();
  // Between begin_run() and end_run() by the device's clock; -1 before the first.
  std::int64_t last_run_ns() const { return last_run_ns_; }

  const cuda::Driver& driver() const { return driver_; }

 private:
  void check(cuda::Code code, const char* call) const;
  void destroy();

  const cuda::Driver& driver_;
  unsigned ordinal_;
  cuda::Handle context_ = nullptr, stream_ = nullptr, begin_ = nullptr, end_ = nullptr;
  std::int64_t last_run_ns_ = -1;
};

// Memory of the machine that the device reads and writes directly. Copies from and to any other go through a
// buffer of the driver's, at a fraction of the speed.
class PinnedMemory {
 public:
  explicit PinnedMemory(const CudaDevice& device) : device_(&device) {}
  ~PinnedMemory() { release(); }
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&&) = delete;

  // Makes it at least so large; what was in it is lost. Throws Failure.
  void* need(std::size_t bytes);
  void* data() const { return data_; }

 private:
  void release();
  const CudaDevice* device_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Memory that somebody else made, pinned for as long as this lives. Pages may be pinned only once, so small
// buffers that share a page with another one cannot be.
class PinnedInPlace {
 public:
  PinnedInPlace(const CudaDevice& device, void* memory, std::size_t bytes);
  ~PinnedInPlace();
  PinnedInPlace(const PinnedInPlace&) = delete;
  PinnedInPlace& operator=(const PinnedInPlace&) = delete;
  bool worked() const { return memory_ != nullptr; }

 private:
  const CudaDevice& device_;
  void* memory_ = nullptr;
};

}  // namespace headroom::plugin
