// Units are types: a byte count is never mistaken for nanoseconds. Input accepts `512MiB`, `8GB`, `1.5G`,
// `300B`; output labels binary units. See docs/units.md.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace headroom {

// A signed count of bytes (signed, because differences such as "given back after unload" can be negative).
struct Bytes {
  std::int64_t count = 0;
  friend auto operator<=>(const Bytes&, const Bytes&) = default;
  friend Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  friend Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
  Bytes& operator+=(Bytes other) {
    count += other.count;
    return *this;
  }
};

// A signed duration or a point on the monotonic clock, in nanoseconds.
struct Nanoseconds {
  std::int64_t count = 0;
  friend auto operator<=>(const Nanoseconds&, const Nanoseconds&) = default;
  friend Nanoseconds operator+(Nanoseconds a, Nanoseconds b) { return {a.count + b.count}; }
  friend Nanoseconds operator-(Nanoseconds a, Nanoseconds b) { return {a.count - b.count}; }
  Nanoseconds& operator+=(Nanoseconds other) {
    count += other.count;
    return *this;
  }
  double seconds() const { return static_cast<double>(count) * 1e-9; }
  double milliseconds() const { return static_cast<double>(count) * 1e-6; }
};

constexpr Bytes kibibytes(std::int64_t n) { return {n * 1024}; }
constexpr Bytes mebibytes(std::int64_t n) { return {n * 1024 * 1024}; }
constexpr Bytes gibibytes(std::int64_t n) { return {n * 1024 * 1024 * 1024}; }

// CLOCK_MONOTONIC now.
Nanoseconds monotonic_now();

// Parses `4096B`, `512KiB`, `8GB` (decimal), `8GiB`, `1.5G` (K, M, G and T alone are binary: 1.5 × 2^30).
// A bare number is an error that says so; negative, overflowing and non-finite sizes are errors.
Result<Bytes> parse_size(std::string_view text);

// Parses `250ms`, `2s`, `1.5min`, `1h`, `100us`, `5ns`; a bare number is seconds (as --metrics-interval 0.5).
Result<Nanoseconds> parse_duration(std::string_view text);

// "0 B", "812 B", "1.5 KiB", "23.4 MiB", "-3.0 MiB", "1.21 GiB".
std::string format_bytes(Bytes bytes);

// As parse_size() takes it, to the byte: "150MiB", "1536KiB", "62914561B".
std::string exact_size(Bytes bytes);

// "812 ns", "12.3 µs", "4.56 ms", "1.234 s", "2 min 05 s".
std::string format_duration(Nanoseconds duration);

}  // namespace headroom
