#include "base/units.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <time.h>
#include <array>
#include <chrono>
#include <cmath>

namespace headroom {
namespace {

constexpr std::array<std::string_view, 5> kBinaryUnits{"B", "KiB", "MiB", "GiB", "TiB"};

}  // namespace

Nanoseconds monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return {static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec};
}

std::string format_bytes(Bytes bytes) {
  double value = static_cast<double>(bytes.count);
  std::size_t index = 0;
  while (std::abs(value) >= 1024.0 && index + 1 < kBinaryUnits.size()) {
    value /= 1024.0;
    ++index;
  }
  if (index == 0) return fmt::format("{} B", bytes.count);
  return fmt::format("{:.{}f} {}", value, index >= 3 ? 2 : 1, kBinaryUnits.at(index));
}

std::string exact_size(Bytes bytes) {
  std::int64_t count = bytes.count;
  std::size_t index = 0;
  for (; count != 0 && count % 1024 == 0 && index + 1 < kBinaryUnits.size(); ++index) count /= 1024;
  return fmt::format("{}{}", count, kBinaryUnits.at(index));
}

std::string format_duration(Nanoseconds duration) {
  const double ns = static_cast<double>(duration.count);
  const double size = std::abs(ns);
  if (size < 1e3) return fmt::format("{} ns", duration.count);
  if (size < 1e6) return fmt::format("{:.1f} µs", ns / 1e3);
  if (size < 1e9) return fmt::format("{:.2f} ms", ns / 1e6);
  if (size < 60e9) return fmt::format("{:.3f} s", ns / 1e9);
  const auto seconds = static_cast<std::int64_t>(std::llround(ns / 1e9));
  return fmt::format("{} min {:02} s", seconds / 60, std::abs(seconds % 60));
}

std::string timestamp_now() {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto second = std::chrono::floor<std::chrono::seconds>(now);
  const std::tm local = fmt::localtime(std::chrono::system_clock::to_time_t(second));
  std::string zone = fmt::format("{:%z}", local);
  // %z gives "+0130"; RFC 3339 requires the colon.
  if (zone.size() == 5) zone.insert(3, ":");
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}{}", local, (now - second).count(), zone);
}

}  // namespace headroom
