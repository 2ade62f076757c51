// How PyTorch's caching allocator sizes its blocks (c10/cuda/CUDACachingAllocator.cpp, 1.13 to 2.11): what is
// asked for is rounded up, and a free block is cut if what would be left is worth it.
#pragma once

#include <cstdint>

#include "snapshot/snapshot.h"

namespace headroom::snapshot {

inline constexpr std::int64_t kTorchBlockUnit = 512;
inline constexpr std::int64_t kTorchSmallRequest = 1 << 20;  // from the pool of small ones, up to this
inline constexpr std::int64_t kTorchSmallSegment = 2 << 20;  // and a page of an expandable one
inline constexpr std::int64_t kTorchLargePage = 20 << 20;    // of an expandable segment of large blocks

class TorchAllocatorRules {
 public:
  explicit TorchAllocatorRules(const AllocatorSettings& settings) : settings_(settings) {}

  // The size of the block that a request gets, unless the free block that is found is not worth cutting.
  std::int64_t rounded(std::int64_t requested) const;
  // Whether a free block of `size` is cut for a request of `rounded`.
  bool is_cut(std::int64_t size, std::int64_t rounded, bool is_large, bool is_expandable) const;
  // What is asked of the driver where no free block serves a request of `rounded`.
  static std::int64_t segment_size(std::int64_t rounded);

 private:
  std::int64_t divisions_for(std::int64_t size) const;
  const AllocatorSettings& settings_;
};

}  // namespace headroom::snapshot
