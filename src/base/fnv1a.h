// 64-bit FNV-1a (Fowler, Noll and Vo): a fingerprint, not a cryptographic hash. Use it only where an attacker
// gains nothing from a collision. Among a million inputs, one collides by chance with probability 1 in
// 37 million (n² / 2 / 2⁶⁴).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace headroom {

class Fnv1a {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  }
  std::string text() const { return fmt::format("{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

inline std::string fingerprint_of(std::string_view bytes) {
  Fnv1a hash;
  hash.add(bytes);
  return hash.text();
}

}  // namespace headroom
