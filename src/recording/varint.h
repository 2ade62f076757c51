// Variable-length integers: seven bits per byte, lowest first. The top bit is set in all bytes except the
// last.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headroom::recording {

inline std::uint8_t* put_varint(std::uint8_t* at, std::uint64_t value) {
  while (value >= 0x80) {
    *at++ = static_cast<std::uint8_t>(value | 0x80);
    value >>= 7;
  }
  *at++ = static_cast<std::uint8_t>(value);
  return at;
}

// Maps small magnitudes of both signs to small numbers: 0, -1, 1, -2 → 0, 1, 2, 3.
inline std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
inline std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

inline constexpr std::ptrdiff_t kLongestVarint = 10;

struct Varint {
  std::uint64_t value = 0;
  const std::uint8_t* next = nullptr;  // after the varint; null if it is invalid
};

// The slow path for fewer than kLongestVarint remaining bytes: checks for the end at each byte.
[[gnu::noinline]] inline Varint varint_near_end(const std::uint8_t* at, const std::uint8_t* end) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; at != end; shift += 7) {
    const std::uint8_t byte = *at++;
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return {value, at};
  }
  return {};
}

// Reads within [at, end). Past the end, or after ten bytes, `at` becomes null and the value 0. A null `at`
// stays null, so callers read a whole record and check once.
inline std::uint64_t get_varint(const std::uint8_t*& at, const std::uint8_t* end) {
  if (at == nullptr) return 0;
  if (end - at < kLongestVarint) {
    const Varint last = varint_near_end(at, end);
    at = last.next;
    return last.value;
  }
  const std::uint8_t* p = at;
  std::uint64_t value = *p++;
  if (value < 0x80) {
    at = p;
    return value;
  }
  for (unsigned shift = 7; shift < 70; shift += 7) {
    const std::uint64_t byte = *p++;
    value += (byte - 1) << shift;  // minus 1 removes the continuation bit of the previous byte
    if (byte < 0x80) {
      at = p;
      return value;
    }
  }
  at = nullptr;
  return 0;
}

}  // namespace headroom::recording
