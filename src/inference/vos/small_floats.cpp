#include "inference/vos/small_floats.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace headroom::inference::vos {
namespace {

void widen(const void* from, ElementType type, float* to, std::size_t count) {
  const auto* halves = static_cast<const std::uint16_t*>(from);
  if (type == ElementType::float32)
    std::memcpy(to, from, count * sizeof(float));
  else if (type == ElementType::float16)
    std::transform(halves, halves + count, to, from_float16);
  else
    std::transform(halves, halves + count, to, from_bfloat16);
}

void narrow(const float* from, void* to, ElementType type, std::size_t count) {
  auto* halves = static_cast<std::uint16_t*>(to);
  if (type == ElementType::float32)
    std::memcpy(to, from, count * sizeof(float));
  else if (type == ElementType::float16)
    std::transform(from, from + count, halves, to_float16);
  else
    std::transform(from, from + count, halves, to_bfloat16);
}

// Conversions between the two 16-bit types, for normal numbers and zero, in arithmetic of 16 bits: the
// compiler makes vector instructions of it. is_other() says which numbers need convert()'s way through
// float32.
struct HalfToBfloat {
  static std::uint16_t convert(std::uint16_t value) {
    const std::uint32_t magnitude = value & 0x7FFFU;
    const std::uint32_t rounded = ((magnitude + 3 + ((magnitude >> 3) & 1U)) >> 3) + (112U << 7);
    return static_cast<std::uint16_t>((value & 0x8000U) | (magnitude == 0 ? 0 : rounded));
  }
  static bool is_other(std::uint16_t value) {
    const auto magnitude = static_cast<std::uint16_t>(value & 0x7FFFU);
    return static_cast<std::uint16_t>(magnitude - 0x400U) >= 0x7800U - 0x400U && magnitude != 0;
  }
  static std::uint16_t by_float(std::uint16_t value) { return to_bfloat16(from_float16(value)); }
};
struct BfloatToHalf {
  static std::uint16_t convert(std::uint16_t value) {
    const std::uint32_t magnitude = value & 0x7FFFU;
    return static_cast<std::uint16_t>((value & 0x8000U) |
                                      (magnitude == 0 ? 0 : ((magnitude - (112U << 7)) << 3) & 0x7FFFU));
  }
  static bool is_other(std::uint16_t value) {
    const auto magnitude = static_cast<std::uint16_t>(value & 0x7FFFU);
    return static_cast<std::uint16_t>(magnitude - (113U << 7)) >= (143U - 113U) << 7 && magnitude != 0;
  }
  static std::uint16_t by_float(std::uint16_t value) { return to_float16(from_bfloat16(value)); }
};

template <class Way>
void change_halves(const void* from, void* to, std::size_t count) {
  constexpr std::size_t kBlock = 16;
  const auto* in = static_cast<const std::uint16_t*>(from);
  auto* out = static_cast<std::uint16_t*>(to);
  for (; count >= kBlock; count -= kBlock, in += kBlock, out += kBlock) {
    std::array<std::uint16_t, kBlock> block;
    std::uint16_t others = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
      block[i] = Way::convert(in[i]);
      others = static_cast<std::uint16_t>(others | (Way::is_other(in[i]) ? 1U : 0U));
    }
    if (others != 0) std::transform(in, in + kBlock, block.begin(), Way::by_float);
    std::copy(block.begin(), block.end(), out);
  }
  std::transform(in, in + count, out, Way::by_float);
}

template <class Number>
void cast(std::span<const float> values, void* to) {
  std::transform(values.begin(), values.end(), static_cast<Number*>(to),
                 [](float value) { return static_cast<Number>(value); });
}

}  // namespace

void convert(const void* from, ElementType from_type, void* to, ElementType to_type, std::size_t count) {
  if (count == 0) return;
  if (from_type == to_type) {
    std::memcpy(to, from, count * size_of(to_type));
  } else if (to_type == ElementType::float32) {
    widen(from, from_type, static_cast<float*>(to), count);
  } else if (from_type == ElementType::float32) {
    narrow(static_cast<const float*>(from), to, to_type, count);
  } else if (from_type == ElementType::float16) {
    change_halves<HalfToBfloat>(from, to, count);
  } else {
    change_halves<BfloatToHalf>(from, to, count);
  }
}

void write_numbers(std::span<const float> values, ElementType type, void* to) {
  switch (type) {
    case ElementType::int64:
      return cast<std::int64_t>(values, to);
    case ElementType::int32:
      return cast<std::int32_t>(values, to);
    case ElementType::boolean:
    case ElementType::uint8:
      return cast<std::uint8_t>(values, to);
    case ElementType::float64:
      return cast<double>(values, to);
    default:
      return narrow(values.data(), to, type, values.size());
  }
}

}  // namespace headroom::inference::vos
