// The encoding of a recording's numbers, and its checksums.
//
// Variable-length integers: seven bits per byte, lowest first. The top bit is set in all bytes except the
// last.
#pragma once

#include <cstddef>
#include <cstdint>

#include "recording/format.h"

namespace headroom::recording {

inline std::uint8_t* put_varint(std::uint8_t* at, std::uint64_t value) {
  while (value >= 0x80) {
    *at++ = static_cast<std::uint8_t>(value | 0x80);
    value >>= 7;
  }
  *at++ = static_cast<std::uint8_t>(value);
  return at;
}

// The same where another three bytes may be overwritten behind the varint. Without a branch for values below
// 2^28: their length can't be predicted, and a wrong guess costs 5 ns.
inline std::uint8_t* put_varint_with_slack(std::uint8_t* at, std::uint64_t value) {
  if (__builtin_expect(value >> 28 != 0, 0)) return put_varint(at, value);
  auto low = static_cast<std::uint32_t>(value);
  const unsigned bits = 32 - static_cast<unsigned>(__builtin_clz(low | 1));
  const unsigned bytes = (9 * bits + 64) / 64;  // bits / 7, rounded up
  low = (low & 0x3fff) | (low & 0xfffc000) << 2;
  low = (low & 0x7f007f) | (low & 0x3f803f80) << 1;
  low |= 0x808080u >> (32 - 8 * bytes);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the bytes of a number are in the order of the file"
#endif
  __builtin_memcpy(at, &low, sizeof low);
  return at + bytes;
}
inline constexpr std::size_t kVarintSlack = 3;

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

// The slow path for values of more than seven bits, and for the last bytes of a segment.
[[gnu::noinline]] inline std::uint64_t get_long_varint(const std::uint8_t*& at, const std::uint8_t* end) {
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

// Reads within [at, end). Past the end, or after ten bytes, `at` becomes null and the value 0. A null `at`
// stays null, so callers read a whole record and check once.
[[gnu::always_inline]] inline std::uint64_t get_varint(const std::uint8_t*& at, const std::uint8_t* end) {
  // Two bytes without a branch between them: most fields are shorter than 2^14, and which of both lengths
  // comes next cannot be predicted.
  if (at == nullptr || end - at < kLongestVarint || (at[0] & at[1] & 0x80) != 0)
    return get_long_varint(at, end);
  const std::uint64_t is_two = at[0] >> 7;
  const std::uint64_t value = (at[0] & 0x7f) | (std::uint64_t{at[1]} << 7 & -is_two);
  at += 1 + is_two;
  return value;
}

// The checksums of a recording (docs/recording-format.md). They are XXH64; the headers of the file and of
// segments store the low 32 bits. XXH64 is fast, because it works on 64-bit words in four independent lanes.
// An ordinary build needs 50 µs for the megabyte of a full segment (21 GB/s), or 0.3 ns per event. Every
// single-bit error changes the 64-bit value. The chance that the low 32 bits stay the same is one in four
// billion.
//
// The preload library includes this file: no library functions, no allocations.
namespace xxh64 {
inline constexpr std::uint64_t kPrime1 = 0x9e3779b185ebca87, kPrime2 = 0xc2b2ae3d27d4eb4f,
                               kPrime3 = 0x165667b19e3779f9, kPrime4 = 0x85ebca77c2b2ae63,
                               kPrime5 = 0x27d4eb2f165667c5;
inline std::uint64_t rotated(std::uint64_t value, unsigned left) {
  return value << left | value >> (64 - left);
}
template <class Word>
inline std::uint64_t word_at(const std::uint8_t* at) {
  Word word;
  __builtin_memcpy(&word, at, sizeof word);
  return word;
}
inline std::uint64_t round(std::uint64_t lane, std::uint64_t word) {
  return rotated(lane + word * kPrime2, 31) * kPrime1;
}
inline std::uint64_t merged(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ round(0, lane)) * kPrime1 + kPrime4;
}
}  // namespace xxh64

inline std::uint64_t checksum(const void* data, std::size_t bytes, std::uint64_t seed) {
  using namespace xxh64;
  const auto* at = static_cast<const std::uint8_t*>(data);
  const std::uint8_t* const end = at + bytes;
  std::uint64_t hash = seed + kPrime5;
  if (bytes >= 32) {
    std::uint64_t a = seed + kPrime1 + kPrime2, b = seed + kPrime2, c = seed, d = seed - kPrime1;
    for (; end - at >= 32; at += 32) {
      a = round(a, word_at<std::uint64_t>(at));
      b = round(b, word_at<std::uint64_t>(at + 8));
      c = round(c, word_at<std::uint64_t>(at + 16));
      d = round(d, word_at<std::uint64_t>(at + 24));
    }
    hash = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18);
    hash = merged(merged(merged(merged(hash, a), b), c), d);
  }
  hash += bytes;
  for (; end - at >= 8; at += 8)
    hash = rotated(hash ^ round(0, word_at<std::uint64_t>(at)), 27) * kPrime1 + kPrime4;
  if (end - at >= 4) {
    hash = rotated(hash ^ word_at<std::uint32_t>(at) * kPrime1, 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at < end; ++at) hash = rotated(hash ^ *at * kPrime5, 11) * kPrime1;
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

// 0 means "no checksum", so a computed 0 is stored as 1.
inline std::uint32_t never_zero(std::uint64_t hash) {
  const auto low = static_cast<std::uint32_t>(hash);
  return low != 0 ? low : 1;
}

// Covers the constant fields of a file header. Fields that change later count as 0. RecordingEnd covers those
// of them that it copies.
inline std::uint32_t checksum_of(const FileHeader& header) {
  std::uint8_t bytes[kCheckedHeaderBytes];
  __builtin_memcpy(bytes, &header, sizeof bytes);
  const auto clear = [&](std::size_t from, std::size_t to) { __builtin_memset(bytes + from, 0, to - from); };
  bytes[offsetof(FileHeader, flags)] &= static_cast<std::uint8_t>(~(kFlagClosed | kFlagSealed));
  clear(offsetof(FileHeader, last_ticks), offsetof(FileHeader, pid));
  clear(offsetof(FileHeader, segments_claimed), offsetof(FileHeader, exec_generation));
  clear(offsetof(FileHeader, checksum), kCheckedHeaderBytes);
  return never_zero(checksum(bytes, sizeof bytes, 0));
}

// Covers the fields of the seal except its checksum, and the committed records.
inline std::uint32_t checksum_of(const SegmentSeal& seal, const void* records) {
  return never_zero(checksum(records, seal.committed, checksum(&seal, offsetof(SegmentSeal, checksum), 0)));
}

// Copies a segment's header into `seal`. Returns false if the owner wrote at the same time in all attempts,
// so that counts and records may not belong together.
inline bool read_seal(const SegmentHeader& header, SegmentSeal& seal) {
  seal.magic = header.magic;
  seal.thread = header.thread;
  seal.number = header.number;
  seal.base_time = header.base_time;
  seal.scope = header.scope;
  constexpr int kMostTries = 100;
  for (int i = 0; i < kMostTries; ++i) {
    seal.committed = header.committed.load(std::memory_order_acquire);
    seal.counted_allocations = header.counted_allocations.load(std::memory_order_acquire);
    seal.counted_bytes = header.counted_bytes.load(std::memory_order_acquire);
    seal.counted_releases = header.counted_releases.load(std::memory_order_acquire);
    seal.counted_scope = header.counted_scope.load(std::memory_order_acquire);
    if (header.committed.load(std::memory_order_relaxed) == seal.committed) return true;
  }
  return false;
}

// Covers the end record except its checksum, and the metadata before it.
inline std::uint64_t checksum_of(const RecordingEnd& end, const void* metadata) {
  return checksum(&end, offsetof(RecordingEnd, checksum), checksum(metadata, end.metadata_bytes, 0));
}

}  // namespace headroom::recording
