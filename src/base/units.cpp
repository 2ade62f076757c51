#include "base/units.h"

#include <fmt/format.h>
#include <time.h>

#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace headroom {
namespace {

struct Unit {
  std::string_view name;  // lower case
  double factor;
};

constexpr std::array<Unit, 16> kSizeUnits{{{"b", 1.0},
                                           {"k", 1024.0},
                                           {"kib", 1024.0},
                                           {"kb", 1e3},
                                           {"m", 1048576.0},
                                           {"mib", 1048576.0},
                                           {"mb", 1e6},
                                           {"g", 1073741824.0},
                                           {"gib", 1073741824.0},
                                           {"gb", 1e9},
                                           {"t", 1099511627776.0},
                                           {"tib", 1099511627776.0},
                                           {"tb", 1e12},
                                           {"byte", 1.0},
                                           {"bytes", 1.0},
                                           {"", 0.0}}};

constexpr std::array<Unit, 9> kTimeUnits{{{"ns", 1.0},
                                          {"us", 1e3},
                                          {"µs", 1e3},
                                          {"ms", 1e6},
                                          {"s", 1e9},
                                          {"sec", 1e9},
                                          {"min", 60e9},
                                          {"h", 3600e9},
                                          {"", 1e9}}};

struct Quantity {
  double value;
  std::string unit;  // lower case, trimmed
};

Result<Quantity> split_quantity(std::string_view text) {
  const std::string_view trimmed = trim(text);
  double value = 0;
  const auto [end, code] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), value);
  if (code != std::errc{} || !std::isfinite(value))
    return usage_error(fmt::format("'{}' is not a number with a unit", text));
  if (value < 0) return usage_error(fmt::format("'{}' is negative", text));
  return Quantity{value, to_lower(trim(trimmed.substr(static_cast<std::size_t>(end - trimmed.data()))))};
}

template <std::size_t N>
const Unit* find_unit(const std::array<Unit, N>& units, std::string_view name) {
  for (const Unit& unit : units)
    if (unit.name == name) return &unit;
  return nullptr;
}

// The largest usable double below 2^63, so that the product converts to int64 without overflow.
constexpr double kLargestCount = 9.2e18;

}  // namespace

Nanoseconds monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return {static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec};
}

Result<Bytes> parse_size(std::string_view text) {
  auto quantity = split_quantity(text);
  if (!quantity) {
    quantity.error().fix = "write a size such as 512MiB, 8GB or 1.5G";
    return forward_error(quantity);
  }
  if (quantity->unit.empty())
    return usage_error(fmt::format("size '{}' has no unit", text), "a bare number is ambiguous",
                       quantity->value > 0 ? fmt::format("write {0}MiB, {0}GB or {0}B", trim(text))
                                           : "write a size such as 512MiB, 8GB or 1.5G");
  const Unit* unit = find_unit(kSizeUnits, quantity->unit);
  if (unit == nullptr)
    return usage_error(fmt::format("size '{}' has the unknown unit '{}'", text, quantity->unit), "",
                       "use B, KiB, MiB, GiB, TiB, KB, MB, GB or TB");
  const double count = quantity->value * unit->factor;
  if (count > kLargestCount) return usage_error(fmt::format("size '{}' is too large", text));
  return Bytes{static_cast<std::int64_t>(std::llround(count))};
}

Result<Nanoseconds> parse_duration(std::string_view text) {
  auto quantity = split_quantity(text);
  if (!quantity) {
    quantity.error().fix = "write a time such as 500ms, 2s or 1.5min";
    return forward_error(quantity);
  }
  const Unit* unit = find_unit(kTimeUnits, quantity->unit);
  if (unit == nullptr)
    return usage_error(fmt::format("time '{}' has the unknown unit '{}'", text, quantity->unit), "",
                       "use ns, us, ms, s, min or h");
  const double count = quantity->value * unit->factor;
  if (count > kLargestCount) return usage_error(fmt::format("time '{}' is too large", text));
  return Nanoseconds{static_cast<std::int64_t>(std::llround(count))};
}

std::string format_bytes(Bytes bytes) {
  constexpr std::array<std::string_view, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes.count);
  std::size_t index = 0;
  while (std::abs(value) >= 1024.0 && index + 1 < kNames.size()) {
    value /= 1024.0;
    ++index;
  }
  if (index == 0) return fmt::format("{} B", bytes.count);
  return fmt::format("{:.{}f} {}", value, index >= 3 ? 2 : 1, kNames.at(index));
}

std::string exact_size(Bytes bytes) {
  constexpr std::array<std::string_view, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::int64_t count = bytes.count;
  std::size_t index = 0;
  for (; count != 0 && count % 1024 == 0 && index + 1 < kUnits.size(); ++index) count /= 1024;
  return fmt::format("{}{}", count, kUnits.at(index));
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

}  // namespace headroom
