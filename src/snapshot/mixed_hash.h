// Hash functions for untrusted data. A hostile file must not be able to create long hash chains. So hashes
// use a random seed, and a search stops after kMostOfAHash entries of a chain.
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

// Words that differ only in the highest bit collide with any seed. An entry that is not found among this many
// is stored again, which costs memory but no time.
inline constexpr std::size_t kMostOfAHash = 64;

}  // namespace headroom::snapshot
