// What an allocation takes up in the heap beyond what was asked for, by the rules of glibc's malloc on 64-bit
// machines: eight bytes of header, multiples of sixteen, at least 32 bytes. Other allocators round otherwise;
// the figures say whose rules they follow.
#pragma once

#include <algorithm>
#include <cstdint>

namespace headroom::attribution {

inline constexpr std::uint64_t kChunkHeader = 8, kChunkStep = 16, kSmallestChunk = 32;

inline std::uint64_t chunk_bytes(std::uint64_t size) {
  return std::max(kSmallestChunk, (size + kChunkHeader + kChunkStep - 1) & ~(kChunkStep - 1));
}

// Allocations from this size on can be mappings of their own (M_MMAP_THRESHOLD): they leave no hole when they
// go, and are no part of the heap's extents. They begin 16 bytes into a page, or as far as their alignment
// asks for: at 32, 64, … 2048, or at the page itself. One in 28 large blocks of the heap begins so by chance.
// From the largest threshold on (it grows with what is released) they always are, but where the program
// switches mappings off.
inline constexpr std::uint64_t kMappingThreshold = 128 << 10, kLargestThreshold = 32 << 20, kPage = 4096;
inline bool can_be_own_mapping(std::uint64_t address, std::uint64_t size) {
  const std::uint64_t offset = address & (kPage - 1);
  return size >= kMappingThreshold && (offset & (offset - 1)) == 0 && offset != 8;
}

}  // namespace headroom::attribution
