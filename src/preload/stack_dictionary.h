// The stacks that a thread's current segment has defined, by their hash: a direct-mapped table of 4096 stacks
// (64 KiB). A stack that was evicted is defined again, which costs bytes but not correctness.
#pragma once

#include <cstdint>

namespace headroom::preload {

class StackDictionary {
 public:
  // Returns the stack's number in the segment; 0 if it has none.
  std::uint32_t find(std::uint64_t hash, std::uint32_t segment) const {
    const Entry& entry = entries_[index_of(hash)];
    return entry.hash == hash && entry.segment == segment ? entry.number : 0;
  }
  void put(std::uint64_t hash, std::uint32_t segment, std::uint32_t number) {
    entries_[index_of(hash)] = {hash, segment, number};
  }

 private:
  static constexpr unsigned kBits = 12;
  // The hash is a product, so its upper bits depend on all input bits.
  static std::uint64_t index_of(std::uint64_t hash) { return hash >> (64 - kBits); }
  struct Entry {
    std::uint64_t hash;
    std::uint32_t segment, number;
  };
  Entry entries_[1 << kBits];
};

}  // namespace headroom::preload
