// The allocator that Headroom passes to TensorRT. All device memory for weights, execution contexts and
// the builder's trials goes through it. It counts the memory, and when the limit refuses a request,
// TensorRT gets a null pointer at once instead of failing later.
#pragma once

#include <NvInfer.h>

#include <mutex>
#include <string>

#include "cuda/driver.h"
#include "inference/tensorrt/memory_account.h"
#include "ledger/device_query.h"

namespace headroom::tensorrt {

// Allocates memory of the current device from the driver, and reads the limit from the preload library.
class DriverMemory final : public MemorySource {
 public:
  DriverMemory(const cuda::Driver& driver, unsigned ordinal);
  // Returns 0 if out of memory. Any other driver error throws a Failure that names the error.
  std::uint64_t allocate(std::uint64_t bytes) override;
  bool free(std::uint64_t address) override;
  std::uint64_t limit() override;
  std::uint64_t live_of_all_processes() override;

 private:
  ledger::DeviceFigures figures() const;
  const cuda::Driver& driver_;
  unsigned ordinal_;
  ledger::DeviceFiguresFunction figures_of_;  // null without the preload library
};

// TensorRT's allocator interface. It must outlive the TensorRT objects that use it. It ignores the stream:
// cuMemFree waits for the device, so memory that kernels still use is never reused.
class GpuAllocator final : public nvinfer1::IGpuAsyncAllocator {
 public:
  GpuAllocator(const cuda::Driver& driver, unsigned ordinal) : source_(driver, ordinal), account_(source_) {}
  void* allocateAsync(uint64_t size, uint64_t alignment, nvinfer1::AllocatorFlags flags,
                      cudaStream_t stream) noexcept override;
  bool deallocateAsync(void* memory, cudaStream_t stream) noexcept override;
  MemoryAccount& account() { return account_; }
  const MemoryAccount& account() const { return account_; }
  // The first driver error other than out of memory, or empty. TensorRT's interface has no way to report
  // it.
  std::string fault() const;

 private:
  mutable std::mutex mutex_;
  std::string fault_;
  DriverMemory source_;
  MemoryAccount account_;
};

}  // namespace headroom::tensorrt
