// Counts the device memory that TensorRT allocates through Headroom's allocator, and the requests that
// were refused. Does not depend on TensorRT.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace headroom::tensorrt {

// The source of memory: the driver, or a test double.
struct MemorySource {
  virtual ~MemorySource() = default;
  // Returns 0 if the request is refused. Any other error throws.
  virtual std::uint64_t allocate(std::uint64_t bytes) = 0;
  virtual bool free(std::uint64_t address) = 0;
  // The limit on this process's memory of the device, and the live bytes of all processes under it. 0: no
  // limit is known.
  virtual std::uint64_t limit() { return 0; }
  virtual std::uint64_t live_of_all_processes() { return 0; }
};

struct MemoryFigures {
  std::uint64_t live = 0, peak = 0, allocations = 0;
  std::uint64_t refused = 0;  // refused requests
};

// Thread-safe, because TensorRT's builder allocates from several threads.
class MemoryAccount {
 public:
  explicit MemoryAccount(MemorySource& source) : source_(source) {}
  // Frees all live blocks.
  ~MemoryAccount();
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // Returns 0 for a refused request and for 0 bytes. The account itself refuses nothing: with the preload
  // library, the driver enforces the limit, exactly across threads and processes, and records each refusal
  // with its call stack.
  std::uint64_t allocate(std::uint64_t bytes);
  // Returns false if the address is not a live block.
  bool free(std::uint64_t address);
  MemoryFigures figures() const;
  // "it requested 512.0 MiB of device memory while it held 1.20 GiB, and all processes under the limit of
  // 2.00 GiB held 1.70 GiB"; empty if nothing was refused.
  std::string refusal_text() const;

 private:
  MemorySource& source_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::uint64_t> blocks_;  // bytes by address
  MemoryFigures figures_;
  std::string refusal_text_;  // of the last refusal
};

}  // namespace headroom::tensorrt
