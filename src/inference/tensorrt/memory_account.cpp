#include "inference/tensorrt/memory_account.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace headroom::tensorrt {
namespace {

std::string amount(std::uint64_t bytes) { return format_bytes(Bytes{static_cast<std::int64_t>(bytes)}); }

}  // namespace

MemoryAccount::~MemoryAccount() {
  for (const auto& [address, bytes] : blocks_) source_.free(address);
}

std::uint64_t MemoryAccount::allocate(std::uint64_t bytes) {
  if (bytes == 0) return 0;
  const std::lock_guard lock(mutex_);
  const std::uint64_t address = source_.allocate(bytes);
  if (address != 0) {
    try {
      blocks_.emplace(address, bytes);
    } catch (...) {
      source_.free(address);
      throw;
    }
    figures_.live += bytes;
    figures_.peak = std::max(figures_.peak, figures_.live);
    ++figures_.allocations;
    return address;
  }
  ++figures_.refused;
  refusal_text_ =
      fmt::format("it requested {} of device memory while it held {}", amount(bytes), amount(figures_.live));
  if (const std::uint64_t limit = source_.limit(); limit > 0)
    refusal_text_ += fmt::format(", and all processes under the limit of {} held {}", amount(limit),
                                 amount(source_.live_of_all_processes()));
  return 0;
}

bool MemoryAccount::free(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return false;
  figures_.live -= block->second;
  blocks_.erase(block);
  return source_.free(address);
}

MemoryFigures MemoryAccount::figures() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

std::string MemoryAccount::refusal_text() const {
  const std::lock_guard lock(mutex_);
  return refusal_text_;
}

}  // namespace headroom::tensorrt
