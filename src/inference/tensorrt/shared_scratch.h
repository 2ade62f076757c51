// The scratch memory of execution contexts: one block of a device for all engines of the process, as large as
// the largest needs, since a pipeline runs them one after another. A session that runs holds it (lock()) for
// the length of its run.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "cuda/driver.h"
#include "inference/tensorrt/gpu_allocator.h"

namespace headroom::tensorrt {

class SharedScratch {
 public:
  // Of a device; all sessions on it hold a share, and the last one gives the memory back.
  static std::shared_ptr<SharedScratch> of(const cuda::Driver& driver, unsigned ordinal);
  SharedScratch(const cuda::Driver& driver, unsigned ordinal) : source_(driver, ordinal), account_(source_) {}
  ~SharedScratch();
  SharedScratch(const SharedScratch&) = delete;
  SharedScratch& operator=(const SharedScratch&) = delete;

  // Makes it at least so large; the address may change, and with it generation(). The old block goes back
  // first, so that there are never two. Throws Failure, HR_ERROR_OUT_OF_MEMORY where it is refused; what was
  // there is then gone, and the next call tries again.
  void need(std::uint64_t bytes);
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  // The block and its size, under lock().
  void* data() const { return reinterpret_cast<void*>(address_); }
  std::uint64_t bytes() const { return bytes_; }
  // Another number for each block; 0: there is none.
  std::uint64_t generation() const { return generation_; }

 private:
  DriverMemory source_;
  MemoryAccount account_;
  std::mutex mutex_;
  std::uint64_t address_ = 0, bytes_ = 0, generation_ = 0, blocks_made_ = 0;
};

}  // namespace headroom::tensorrt
