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
  } else {
    std::array<float, 512> block{};
    for (std::size_t done = 0; done < count; done += block.size()) {
      const std::size_t some = std::min(block.size(), count - done);
      widen(static_cast<const std::byte*>(from) + done * size_of(from_type), from_type, block.data(), some);
      narrow(block.data(), static_cast<std::byte*>(to) + done * size_of(to_type), to_type, some);
    }
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
