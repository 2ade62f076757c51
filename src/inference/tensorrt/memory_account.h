// What TensorRT has of a device through the allocator that it is given, and what it was refused. It knows no
// TensorRT.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace headroom::tensorrt {

// Where the memory comes from: the driver, or a test's own.
struct MemorySource {
  virtual ~MemorySource() = default;
  // 0 if it is refused. What is no refusal of memory throws.
  virtual std::uint64_t take(std::uint64_t bytes) = 0;
  virtual bool give_back(std::uint64_t address) = 0;
  // The limit that holds for this process' memory of the device, and what all processes under it hold; 0: no
  // limit is known.
  virtual std::uint64_t limit() { return 0; }
  virtual std::uint64_t held_by_all() { return 0; }
};

struct MemoryFigures {
  std::uint64_t held = 0, peak = 0, allocations = 0;
  std::uint64_t refused = 0;                               // requests
  std::uint64_t last_refused_bytes = 0;                    // of the last of them
  std::uint64_t held_at_refusal = 0;                       // by this account, then
  std::uint64_t limit_at_refusal = 0, all_at_refusal = 0;  // 0: no limit was known
};

// Safe to use from any thread: TensorRT's builder allocates from several.
class MemoryAccount {
 public:
  explicit MemoryAccount(MemorySource& source) : source_(source) {}
  // What is still held goes back.
  ~MemoryAccount();
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // 0 if it is refused, and of no bytes. Nothing is refused that the source grants: with the preload library
  // the source's driver is the limit itself, exact among threads and processes, and its refusal is in the
  // ledger with its stack.
  std::uint64_t take(std::uint64_t bytes);
  // False if nothing was taken at this address.
  bool give_back(std::uint64_t address);
  MemoryFigures figures() const;
  // "it asked for 512.0 MiB while it held 1.20 GiB, and all that share the limit of 2.00 GiB held 1.70 GiB";
  // empty if nothing was refused.
  std::string refusal_text() const;

 private:
  MemorySource& source_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::uint64_t> blocks_;  // bytes by address
  MemoryFigures figures_;
};

}  // namespace headroom::tensorrt
