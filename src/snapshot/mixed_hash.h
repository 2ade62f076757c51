// Hashes of what a file says, in tables whose chains the file must not be able to make long: they begin with
// a number that no file knows, and a chain is looked through only so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

namespace headroom::snapshot {

inline std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

inline std::uint64_t hash_seed() {
  static const std::uint64_t seed = [] {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
  }();
  return seed;
}

// Words that differ in their highest bit alone collide whatever the seed. What is not found among so many is
// stored once more, which costs room for what the file really says, and no time.
inline constexpr std::size_t kMostOfAHash = 64;

}  // namespace headroom::snapshot
