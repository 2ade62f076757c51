#include "inference/vos/small_floats.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace headroom::inference::vos {
namespace {

TEST(SmallFloats, Float16RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(to_float16(1.0F), 0x3C00);
  EXPECT_EQ(to_float16(-2.0F), 0xC000);
  EXPECT_EQ(to_float16(1.0F + 0x1p-11F), 0x3C00);      // a tie, to the even 1
  EXPECT_EQ(to_float16(1.0F + 3 * 0x1p-11F), 0x3C02);  // a tie, to the even neighbour above
  EXPECT_EQ(to_float16(1.0F + 0x1.002p-11F), 0x3C01);
  EXPECT_EQ(to_float16(65504.0F), 0x7BFF);
  EXPECT_EQ(to_float16(65519.996F), 0x7BFF);
  EXPECT_EQ(to_float16(65520.0F), 0x7C00);
  EXPECT_EQ(to_float16(0x1p-14F), 0x0400);
  EXPECT_EQ(to_float16(0x1p-24F), 0x0001);
  EXPECT_EQ(to_float16(0x1p-25F), 0x0000);
  EXPECT_EQ(to_float16(1.5F * 0x1p-24F), 0x0002);
  EXPECT_EQ(to_float16(-std::numeric_limits<float>::infinity()), 0xFC00);
  EXPECT_TRUE(std::isnan(from_float16(to_float16(std::nanf("")))));
}

TEST(SmallFloats, AllValuesOf16BitsSurviveFloat32) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto value = static_cast<std::uint16_t>(bits);
    if (!std::isnan(from_float16(value))) {
      ASSERT_EQ(to_float16(from_float16(value)), value);
    }
    if (!std::isnan(from_bfloat16(value))) {
      ASSERT_EQ(to_bfloat16(from_bfloat16(value)), value);
    }
  }
}

TEST(SmallFloats, Bfloat16RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(from_bfloat16(to_bfloat16(1.0F + 0x1p-8F)), 1.0F);
  EXPECT_EQ(from_bfloat16(to_bfloat16(1.0F + 3 * 0x1p-8F)), 1.0F + 4 * 0x1p-8F);
  EXPECT_EQ(from_bfloat16(to_bfloat16(1.0F + 0x1.01p-8F)), 1.0F + 0x1p-7F);
  EXPECT_TRUE(std::isnan(from_bfloat16(to_bfloat16(std::nanf("")))));
}

TEST(SmallFloats, ConvertsBetweenTheTwo16BitTypes) {
  std::vector<std::uint16_t> halves, brains(1000), back(1000);
  for (int i = 0; i < 1000; ++i) halves.push_back(to_float16(static_cast<float>(i % 256) - 100));
  convert(halves.data(), ElementType::float16, brains.data(), ElementType::bfloat16, 1000);
  convert(brains.data(), ElementType::bfloat16, back.data(), ElementType::float16, 1000);
  EXPECT_EQ(from_bfloat16(brains[999]), static_cast<float>(999 % 256) - 100);
  EXPECT_EQ(back, halves);
}

// Alone and in a block with others: subnormal numbers, infinities and NaN leave the way of normal numbers.
TEST(SmallFloats, EachValueOf16BitsConvertsAsByFloat32) {
  std::vector<std::uint16_t> values(0x10000 + 5), converted(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(i * 7919);
  convert(values.data(), ElementType::float16, converted.data(), ElementType::bfloat16, values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(converted[i], to_bfloat16(from_float16(values[i]))) << values[i];
  convert(values.data(), ElementType::bfloat16, converted.data(), ElementType::float16, values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(converted[i], to_float16(from_bfloat16(values[i]))) << values[i];
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::uint16_t>(i);  // whole blocks of a kind
  convert(values.data(), ElementType::float16, converted.data(), ElementType::bfloat16, values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(converted[i], to_bfloat16(from_float16(values[i]))) << values[i];
  convert(values.data(), ElementType::bfloat16, converted.data(), ElementType::float16, values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(converted[i], to_float16(from_bfloat16(values[i]))) << values[i];
}

TEST(SmallFloats, WritesIntegersForInputsOfIntegers) {
  const std::array<float, 3> values{-1, 2, 3};
  std::array<std::int64_t, 3> longs{};
  std::array<std::int32_t, 3> ints{};
  write_numbers(values, ElementType::int64, longs.data());
  write_numbers(values, ElementType::int32, ints.data());
  EXPECT_EQ(longs, (std::array<std::int64_t, 3>{-1, 2, 3}));
  EXPECT_EQ(ints, (std::array<std::int32_t, 3>{-1, 2, 3}));
}

}  // namespace
}  // namespace headroom::inference::vos
