#include "media/depth_scaling.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "support/test_support.h"

namespace headroom::media {
namespace {

template <class Value>
std::vector<int> scaled(const std::vector<Value>& values) {
  std::vector<std::uint8_t> result(values.size());
  scale_to_8_bit(std::span<const Value>(values), result.data());
  return {result.begin(), result.end()};
}

TEST(DepthScaling, MapsFirstAndNinetyNinthPercentileToBlackAndWhite) {
  std::vector<std::uint16_t> values(101);
  std::iota(values.begin(), values.end(), static_cast<std::uint16_t>(30000));
  std::shuffle(values.begin(), values.end(), std::mt19937(7));
  const auto result = scaled(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int rank = values[i] - 30000;  // the percentile, because there are 101 values
    const int expected = rank <= 1    ? 0
                         : rank >= 99 ? 255
                                      : static_cast<int>(std::lround((rank - 1) * 255.0 / 98));
    EXPECT_EQ(result[i], expected) << "percentile " << rank;
  }
}

TEST(DepthScaling, FloatsGiveTheSameAsIntegers) {
  std::mt19937 random(3);
  std::vector<std::uint16_t> values(5000);
  for (auto& value : values) value = static_cast<std::uint16_t>(20000 + random() % 3000);
  EXPECT_EQ(scaled(values), scaled(std::vector<float>(values.begin(), values.end())));
}

TEST(DepthScaling, ConstantFrameIsBlack) {
  EXPECT_THAT(scaled(std::vector<std::uint16_t>(10, 65535)), testing::Each(0));
  EXPECT_THAT(scaled(std::vector<float>(10, 21.5F)), testing::Each(0));
}

TEST(DepthScaling, KeepsASmallHotSpotInAUniformScene) {
  std::vector<std::uint16_t> values(10000, 30000);
  std::fill_n(values.begin(), 80, std::uint16_t{40000});  // 0.8 %: both percentiles are background values
  for (const auto& result : {scaled(values), scaled(std::vector<float>(values.begin(), values.end()))}) {
    EXPECT_EQ(result.front(), 255);
    EXPECT_EQ(result.back(), 0);
  }
}

TEST(DepthScaling, NotANumberIsBlackAndIgnored) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(scaled(std::vector<float>{kNan, 1, 2, 3, kInfinity, -kInfinity}),
            (std::vector<int>{0, 0, 255, 255, 255, 0}));
  EXPECT_THAT(scaled(std::vector<float>(4, kNan)), testing::Each(0));
  EXPECT_TRUE(scaled(std::vector<float>{}).empty());
  EXPECT_TRUE(scaled(std::vector<std::uint16_t>{}).empty());
}

}  // namespace
}  // namespace headroom::media
