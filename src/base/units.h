// Byte counts and nanoseconds are distinct types, so they cannot be mixed up. Input accepts `512MiB`, `8GB`,
// `1.5G`, `300B`; output uses binary units. See docs/units.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace headroom {

// A signed count of bytes. Signed, because differences such as "freed by unload" can be negative.
struct Bytes {
  std::int64_t count = 0;
  friend constexpr bool operator==(Bytes a, Bytes b) { return a.count == b.count; }
  friend constexpr bool operator!=(Bytes a, Bytes b) { return a.count != b.count; }
  friend constexpr bool operator<(Bytes a, Bytes b) { return a.count < b.count; }
  friend constexpr bool operator<=(Bytes a, Bytes b) { return a.count <= b.count; }
  friend constexpr bool operator>(Bytes a, Bytes b) { return a.count > b.count; }
  friend constexpr bool operator>=(Bytes a, Bytes b) { return a.count >= b.count; }
  friend Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  friend Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
  Bytes& operator+=(Bytes other) {
    count += other.count;
    return *this;
  }
};

// A signed duration, or a point on the monotonic clock.
struct Nanoseconds {
  std::int64_t count = 0;
  friend constexpr bool operator==(Nanoseconds a, Nanoseconds b) { return a.count == b.count; }
  friend constexpr bool operator!=(Nanoseconds a, Nanoseconds b) { return a.count != b.count; }
  friend constexpr bool operator<(Nanoseconds a, Nanoseconds b) { return a.count < b.count; }
  friend constexpr bool operator<=(Nanoseconds a, Nanoseconds b) { return a.count <= b.count; }
  friend constexpr bool operator>(Nanoseconds a, Nanoseconds b) { return a.count > b.count; }
  friend constexpr bool operator>=(Nanoseconds a, Nanoseconds b) { return a.count >= b.count; }
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

// The current CLOCK_MONOTONIC time.
Nanoseconds monotonic_now();

// Parses `4096B`, `512KiB`, `8GB` (decimal), `8GiB`, `1.5G` (K, M, G and T alone are binary: 1.5 × 2^30).
// Usage errors: a number without a unit, and negative, non-finite or overflowing sizes.
Result<Bytes> parse_size(std::string_view text);

// Parses `250ms`, `2s`, `1.5min`, `1h`, `100us`, `5ns`; a number without a unit is in seconds
// (--metrics-interval 0.5). Usage errors: as for sizes, and an unknown unit.
Result<Nanoseconds> parse_duration(std::string_view text);

// "0 B", "812 B", "1.5 KiB", "23.4 MiB", "-3.0 MiB", "1.21 GiB".
std::string format_bytes(Bytes bytes);

// The exact size in a form that parse_size() accepts: "150MiB", "1536KiB", "62914561B".
std::string exact_size(Bytes bytes);

// "812 ns", "12.3 µs", "4.56 ms", "1.234 s", "2 min 05 s".
std::string format_duration(Nanoseconds duration);

// Timestamps in reports: RFC 3339 in the device's local time.
// The current time, with milliseconds: "2026-11-21T10:30:00.250+01:00".
std::string timestamp_now();

// Milliseconds since 1970 in UTC, so that times of different zones can be compared. Nothing if the text is
// not a timestamp. Also reads the format of Headroom's first versions: no fraction, "+0100".
std::optional<std::int64_t> parse_timestamp(std::string_view text);

// The timestamp without its fraction, for display.
std::string without_fraction(std::string_view timestamp);

}  // namespace headroom
