// The device memory of TensorRT: the allocator that Headroom passes to it, and the scratch memory. All device
// memory for weights, execution contexts and
// the builder's trials goes through it. It counts the memory, and when the limit refuses a request,
// TensorRT gets a null pointer at once instead of failing later.
#pragma once

#include <NvInfer.h>
#include <cstdint>
#include <memory>
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
#if NV_TENSORRT_MAJOR >= 10
class GpuAllocator final : public nvinfer1::IGpuAsyncAllocator {
#else
class GpuAllocator final : public nvinfer1::IGpuAllocator {
#endif
 public:
  GpuAllocator(const cuda::Driver& driver, unsigned ordinal) : source_(driver, ordinal), account_(source_) {}
#if NV_TENSORRT_MAJOR >= 10
  void* allocateAsync(uint64_t size, uint64_t /*alignment: the driver's is 256 at least*/,
                      nvinfer1::AllocatorFlags /*flags*/, cudaStream_t /*stream*/) noexcept override {
    return take(size);
  }
  bool deallocateAsync(void* memory, cudaStream_t /*stream*/) noexcept override { return give_back(memory); }
#else
  void* allocate(uint64_t size, uint64_t /*alignment*/,
                 nvinfer1::AllocatorFlags /*flags*/) noexcept override {
    return take(size);
  }
  bool deallocate(void* memory) noexcept override { return give_back(memory); }
  void free(void* memory) noexcept override { give_back(memory); }
#endif
  MemoryAccount& account() { return account_; }
  const MemoryAccount& account() const { return account_; }
  // The first driver error other than out of memory, or empty. TensorRT's interface has no way to report
  // it.
  std::string fault() const;

 private:
  void* take(std::uint64_t size) noexcept;
  bool give_back(void* memory) noexcept;

  mutable std::mutex mutex_;
  std::string fault_;
  DriverMemory source_;
  MemoryAccount account_;
};

// The scratch memory of execution contexts. All engines of the process on one device share one block, because
// a pipeline runs them one after another. The block has the size that the largest engine needs. A session
// holds lock() during its run.
class SharedScratch {
 public:
  // Returns the scratch memory of a device. All sessions on the device share it; the last one frees it.
  static std::shared_ptr<SharedScratch> of(const cuda::Driver& driver, unsigned ordinal);
  SharedScratch(const cuda::Driver& driver, unsigned ordinal) : source_(driver, ordinal), account_(source_) {}
  ~SharedScratch();
  SharedScratch(const SharedScratch&) = delete;
  SharedScratch& operator=(const SharedScratch&) = delete;

  // Grows the block to at least this size, in bytes. The caller holds lock(). The address and generation()
  // may change. The old block is freed first, so that two blocks never exist at once. Throws Failure,
  // HR_ERROR_OUT_OF_MEMORY if the memory is refused; the old block is then gone, and the next call tries
  // again.
  void need(std::uint64_t bytes);
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  // The block and its size. The caller holds lock().
  void* data() const { return reinterpret_cast<void*>(address_); }
  std::uint64_t bytes() const { return bytes_; }
  // A new number for each block; 0: there is no block.
  std::uint64_t generation() const { return generation_; }

 private:
  DriverMemory source_;
  MemoryAccount account_;
  std::mutex mutex_;
  std::uint64_t address_ = 0, bytes_ = 0, generation_ = 0, blocks_made_ = 0;
};

}  // namespace headroom::tensorrt
