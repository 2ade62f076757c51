// Conversions between float32 and the 16-bit types of graphs and of the memory bank. They round to the
// nearest value, ties to even, as PyTorch and NumPy do.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "types/tensor.h"

namespace headroom::inference::vos {

constexpr std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);  // NaN
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}
constexpr float from_bfloat16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

constexpr std::uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return sign | 0x7E00U;                              // NaN
  if (magnitude >= std::bit_cast<std::uint32_t>(65520.0F)) return sign | 0x7C00U;  // rounds to infinity
  if (magnitude < std::bit_cast<std::uint32_t>(0x1p-14F)) {
    // A step of float16 below its normal numbers is 2^-24, which is also a step of float32 at 0.5.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(
        sign | (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F)));
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - (112U << 23)) >> 13));
}
constexpr float from_float16(std::uint16_t value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value & 0x8000U) << 16;
  const std::uint32_t exponent = (value >> 10) & 31U, fraction = value & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

// The types that convert() reads and writes.
constexpr bool is_float(ElementType type) {
  return type == ElementType::float32 || type == ElementType::float16 || type == ElementType::bfloat16;
}

// Converts `count` elements between two types of is_float(). `from` and `to` do not overlap.
void convert(const void* from, ElementType from_type, void* to, ElementType to_type, std::size_t count);

// The same from numbers to a graph's input of any numeric type.
void write_numbers(std::span<const float> values, ElementType type, void* to);

}  // namespace headroom::inference::vos
