// Expected values come from torch.nn.functional.interpolate of PyTorch 1.13.
#include "inference/vos/resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <tuple>

namespace headroom::inference::vos {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

BinaryMask mask_of_size(int width, int height) {
  return {width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height), 7)};
}

TEST(MaskResizer, FollowsPyTorchWithoutAlignedCorners) {
  const std::vector<float> logits{-3, 1, 4, 2, -5, 0.5F};  // 3 × 2
  const std::vector<float> torch{-3.0F, -2.428571F, -0.714286F, 1.0F,  2.285714F,  3.571429F,  4.0F,
                                 -2.5F, -2.085714F, -0.842857F, 0.4F,  1.792857F,  3.185714F,  3.65F,
                                 -0.5F, -0.714286F, -1.357143F, -2.0F, -0.178571F, 1.642857F,  2.25F,
                                 1.5F,  0.657143F,  -1.871429F, -4.4F, -2.15F,     0.1F,       0.85F,
                                 2.0F,  1.0F,       -2.0F,      -5.0F, -2.642857F, -0.285714F, 0.5F};
  // The resizer only says which values are above 0. A shift of all logits moves that limit, so that masks for
  // many limits show the values.
  for (const float limit : {-4.41F, -4.39F, -2.43F, -2.42F, -0.5F - 0.01F, -0.49F, 0.0F, 0.39F, 0.41F, 2.24F,
                            2.26F, 3.64F, 3.66F}) {
    std::vector<float> shifted = logits;
    for (float& logit : shifted) logit -= limit;
    BinaryMask mask = mask_of_size(7, 5);
    MaskResizer(3, 2, 7, 5, 1).resize(shifted, mask);
    for (std::size_t i = 0; i < torch.size(); ++i)
      EXPECT_EQ(mask.pixels[i], torch[i] > limit ? 1 : 0) << "pixel " << i << ", limit " << limit;
  }
}

TEST(MaskResizer, ALogitOfZeroIsOutside) {
  BinaryMask mask = mask_of_size(2, 1);
  const std::vector<float> logits{0, 0.001F};
  MaskResizer(2, 1, 2, 1, 1).resize(logits, mask);
  EXPECT_THAT(mask.pixels, ElementsAre(0, 1));
}

// The rows and columns that no logit above 0 reaches are left out, so objects at all places have to agree
// with the sum of four logits.
TEST(MaskResizer, FindsObjectsAtEachPlaceAndOfEachSize) {
  constexpr int kFrom = 40, kWidth = 131, kHeight = 67;
  MaskResizer resizer(kFrom, kFrom, kWidth, kHeight, 1);
  const auto tap = [](int to, int i) {
    const float scale = static_cast<float>(kFrom) / static_cast<float>(to);
    const float at = std::max((static_cast<float>(i) + 0.5F) * scale - 0.5F, 0.0F);
    const int first = std::min(static_cast<int>(at), kFrom - 1);
    return std::tuple(first, std::min(first + 1, kFrom - 1), at - static_cast<float>(first));
  };
  BinaryMask mask = mask_of_size(kWidth, kHeight);
  for (const int size : {0, 1, 3, 17, kFrom})
    for (const int left : {0, 1, 15, 16, 23, kFrom - size})
      for (const int top : {0, 9, kFrom - size}) {
        std::vector<float> logits(kFrom * kFrom, -1);
        for (int y = top; y < std::min(top + size, kFrom); ++y)
          for (int x = left; x < std::min(left + size, kFrom); ++x)
            logits[static_cast<std::size_t>(y * kFrom + x)] = static_cast<float>(1 + (x + y) % 5);
        resizer.resize(logits, mask);
        for (int y = 0; y < kHeight; ++y)
          for (int x = 0; x < kWidth; ++x) {
            const auto [row, next_row, lower] = tap(kHeight, y);
            const auto [column, next_column, right] = tap(kWidth, x);
            const auto line = [&, column = column, next_column = next_column, right = right](int of) {
              return (1 - right) * logits[static_cast<std::size_t>(of * kFrom + column)] +
                     right * logits[static_cast<std::size_t>(of * kFrom + next_column)];
            };
            const float logit = (1 - lower) * line(row) + lower * line(next_row);
            ASSERT_EQ(mask.pixels[static_cast<std::size_t>(y * kWidth + x)], logit > 0 ? 1 : 0)
                << size << " at " << left << ", " << top << ": pixel " << x << ", " << y;
          }
      }
}

TEST(MaskResizer, OfOverlappingObjectsTheHighestLogitWins) {
  const std::vector<float> a{1, 3, -1, 2, 5}, b{2, 3, -2, -1, 4}, c{0.5F, 9, -3, -1, 5};
  std::vector<BinaryMask> masks(4, mask_of_size(5, 1));
  const std::vector<BinaryMask*> pointers{&masks[0], &masks[1], &masks[2], &masks[3]};
  const std::vector<std::span<const float>> logits{a, b, {}, c};
  MaskResizer(5, 1, 5, 1, 4).resize_without_overlap(logits, pointers);
  EXPECT_THAT(masks[0].pixels, ElementsAre(0, 0, 0, 1, 1));  // the first of equals
  EXPECT_THAT(masks[1].pixels, ElementsAre(1, 0, 0, 0, 0));
  EXPECT_THAT(masks[2].pixels, ElementsAre(0, 0, 0, 0, 0));  // not in the frame
  EXPECT_THAT(masks[3].pixels, ElementsAre(0, 1, 0, 0, 0));
}

TEST(ResizeAntialiased, FollowsPyTorchDownwards) {
  std::vector<float> from(35);
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<float>((i + 1) * (i + 1) % 11);  // 7 × 5
  EXPECT_THAT(
      resize_antialiased(from, 7, 5, 3, 2),
      Pointwise(FloatNear(2e-6F), {4.279221F, 3.548129F, 4.350649F, 3.672078F, 4.342246F, 3.136364F}));
  EXPECT_THAT(
      resize_antialiased(from, 7, 5, 4, 3),
      Pointwise(FloatNear(2e-6F), {4.299319F, 4.497143F, 2.6F, 5.088435F, 3.825397F, 3.337778F, 5.386666F,
                                   3.608465F, 4.074829F, 4.434286F, 2.725714F, 2.768708F}));
}

TEST(ResizeAntialiased, FollowsPyTorchUpwards) {
  std::vector<float> from(35);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>((i + 1) * (i + 1) % 11);
  const std::vector<float> large = resize_antialiased(from, 7, 5, 10, 9);
  const std::vector<float> first_rows(large.begin(), large.begin() + 20);
  EXPECT_THAT(first_rows,
              Pointwise(FloatNear(2e-6F),
                        {1.0F,      2.65F,     5.25F,     8.75F,     6.400001F, 4.3F,      3.0F,
                         3.0F,      3.9F,      5.0F,      3.666667F, 3.85F,     4.583333F, 6.216666F,
                         4.383334F, 2.983333F, 2.383333F, 3.083333F, 4.683333F, 6.333333F}));
}

// An ellipse of a 150 × 90 frame at 64 × 64, cut at 0.5: pixels in each column.
TEST(ResizeAntialiased, MakesTheMaskPromptOfPyTorch) {
  std::vector<float> mask;
  for (int y = 0; y < 90; ++y)
    for (int x = 0; x < 150; ++x) {
      const double dx = x - 70, dy = y - 40;
      mask.push_back(dx * dx / 900 + dy * dy / 400 < 1 ? 1.0F : 0.0F);
    }
  std::vector<float> small = resize_antialiased(mask, 150, 90, 64, 64);
  std::vector<int> columns(64);
  for (std::size_t i = 0; i < small.size(); ++i) {
    small[i] = small[i] >= 0.5F ? 10.0F : -10.0F;
    columns[i % 64] += small[i] > 0 ? 1 : 0;
  }
  EXPECT_EQ(std::accumulate(columns.begin(), columns.end(), 0), 570);
  EXPECT_THAT(std::vector<int>(columns.begin() + 17, columns.begin() + 43),
              ElementsAre(6, 12, 16, 18, 21, 22, 24, 26, 26, 28, 28, 28, 28, 28, 28, 28, 28, 26, 26, 24, 23,
                          21, 19, 16, 12, 8));
  const std::vector<float> logits = resize_antialiased(small, 64, 64, 16, 16);
  EXPECT_THAT(
      std::vector<float>(logits.begin() + 164, logits.begin() + 171),
      Pointwise(FloatNear(1e-5F), {-9.98047F, -7.1875F, 1.54297F, 4.375F, 1.54297F, -7.1875F, -9.98047F}));
}

}  // namespace
}  // namespace headroom::inference::vos
