// The scratch memory of execution contexts. All engines of the process on one device share one block, because
// a pipeline runs them one after another. The block has the size that the largest engine needs. A session
// holds lock() during its run.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "cuda/driver.h"
#include "inference/tensorrt/gpu_allocator.h"

namespace headroom::tensorrt {

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
