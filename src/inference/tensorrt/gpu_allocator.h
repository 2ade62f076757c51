// The allocator that TensorRT is given: every byte of weights, contexts and the builder's trials comes from
// the driver through it, is counted, and where the limit refuses it TensorRT is told so instead of failing
// somewhere behind.
#pragma once

#include <NvInfer.h>

#include <mutex>
#include <string>

#include "cuda/driver.h"
#include "inference/tensorrt/memory_account.h"
#include "ledger/device_query.h"

namespace headroom::tensorrt {

// The driver's memory of the current device; what the preload library says of the limit.
class DriverMemory final : public MemorySource {
 public:
  DriverMemory(const cuda::Driver& driver, unsigned ordinal);
  // 0 where there is no memory; any other error of the driver throws Failure, which names it.
  std::uint64_t take(std::uint64_t bytes) override;
  bool give_back(std::uint64_t address) override;
  std::uint64_t limit() override;
  std::uint64_t held_by_all() override;

 private:
  ledger::DeviceFigures figures() const;
  const cuda::Driver& driver_;
  unsigned ordinal_;
  ledger::DeviceFiguresFunction figures_of_;  // null without the preload library
};

// Must outlive what it is given to. Nothing is ordered by the stream: cuMemFree waits for the device, so what
// kernels still use is never given away.
class GpuAllocator final : public nvinfer1::IGpuAsyncAllocator {
 public:
  GpuAllocator(const cuda::Driver& driver, unsigned ordinal) : source_(driver, ordinal), account_(source_) {}
  void* allocateAsync(uint64_t size, uint64_t alignment, nvinfer1::AllocatorFlags flags,
                      cudaStream_t stream) noexcept override;
  bool deallocateAsync(void* memory, cudaStream_t stream) noexcept override;
  MemoryAccount& account() { return account_; }
  const MemoryAccount& account() const { return account_; }
  // The first error of the driver that is none of memory, or nothing. TensorRT cannot be told it.
  std::string fault() const;

 private:
  mutable std::mutex mutex_;
  std::string fault_;
  DriverMemory source_;
  MemoryAccount account_;
};

}  // namespace headroom::tensorrt
