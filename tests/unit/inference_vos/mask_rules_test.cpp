#include "inference/vos/mask_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace headroom::inference::vos {
namespace {

// A mask of 100 pixels with `inner` logits of 1 and `between` of 0.
std::vector<float> mask_with(int inner, int between) {
  std::vector<float> mask(100, -1);
  std::fill_n(mask.begin(), inner, 1.0F);
  std::fill_n(mask.begin() + inner, between, 0.0F);
  return mask;
}

constexpr std::array<float, 4> kIous{0.9F, 0.1F, 0.3F, 0.2F};

TEST(ChooseToken, TakesTheBestOfThreeForATrackedFrameAndOnePoint) {
  for (const int points : {0, 1}) {
    const TokenChoice choice = choose_token(mask_with(50, 50), kIous, points, {}, true);
    EXPECT_EQ(choice.mask, 2U);
    EXPECT_EQ(choice.pointer, 2U);
  }
}

TEST(ChooseToken, TakesTheSingleMaskForABoxAndForSeveralPoints) {
  for (const int points : {2, 3}) {
    const TokenChoice choice = choose_token(mask_with(100, 0), kIous, points, {}, true);
    EXPECT_EQ(choice.mask, 0U);
    EXPECT_EQ(choice.pointer, 0U);
  }
}

TEST(ChooseToken, ReplacesAnUnstableSingleMaskAndKeepsItsPointer) {
  const TokenChoice unstable = choose_token(mask_with(97, 2), kIous, 2, {}, true);  // 97/99 < 0.98
  EXPECT_EQ(unstable.mask, 2U);
  EXPECT_EQ(unstable.pointer, 0U);
  EXPECT_EQ(choose_token(mask_with(98, 2), kIous, 2, {}, true).mask, 0U);   // 0.98 is stable
  EXPECT_EQ(choose_token(mask_with(97, 2), kIous, 2, {}, false).mask, 0U);  // the evaluation profile
}

TEST(ChooseToken, FollowsTheManifestsRangeOfPoints) {
  Manifest manifest;
  manifest.multimask_min_points = 1;
  manifest.multimask_max_points = 2;
  EXPECT_EQ(choose_token(mask_with(100, 0), kIous, 0, manifest, true).mask, 0U);
  EXPECT_EQ(choose_token(mask_with(100, 0), kIous, 2, manifest, true).mask, 2U);
}

TEST(ChooseToken, TakesTheFirstOfEqualScores) {
  const std::array<float, 4> ious{0, 0.5F, 0.5F, 0.5F};
  EXPECT_EQ(choose_token(mask_with(100, 0), ious, 1, {}, true).mask, 1U);
}

TEST(StabilityScore, IsOneWithoutPixels) {
  const std::array<float, 3> nothing{-1, -0.06F, -1024};
  EXPECT_EQ(stability_score(nothing, 0.05F), 1);
  const std::array<float, 4> some{0.06F, 0.04F, -0.04F, -0.06F};
  EXPECT_FLOAT_EQ(stability_score(some, 0.05F), 1.0F / 3);
}

// '#': 1, '.': -1.
std::vector<float> logits_of(std::string_view picture) {
  std::vector<float> logits;
  for (const char c : picture) logits.push_back(c == '#' ? 1.0F : -1.0F);
  return logits;
}
std::string filled(std::string_view picture, int width) {
  std::vector<float> logits = logits_of(picture);
  HoleFiller filler;
  filler.fill(logits, width, static_cast<int>(picture.size()) / width);
  std::string result;
  for (const float logit : logits) result += logit == HoleFiller::kFilled ? 'o' : logit > 0 ? '#' : '.';
  return result;
}

TEST(HoleFiller, FillsUpToEightPixelsAndKeepsNine) {
  EXPECT_EQ(filled("######"
                   "#....#"
                   "#....#"
                   "######",
                   6),
            "######"
            "#oooo#"
            "#oooo#"
            "######");
  const std::string_view nine =
      "#####"
      "#...#"
      "#...#"
      "#...#"
      "#####";
  EXPECT_EQ(filled(nine, 5), nine);
}

TEST(HoleFiller, DiagonalNeighboursAreOneComponent) {
  const std::string_view diagonal =  // nine pixels
      "#########"
      "#.#.#.#.#"
      "##.#.#.##"
      "###.#.###"
      "#########";
  EXPECT_EQ(filled(diagonal, 9), diagonal);
  EXPECT_EQ(filled("#######"
                   "#.###.#"
                   "##.#.##"
                   "#######",
                   7),
            "#######"
            "#o###o#"
            "##o#o##"
            "#######");
}

TEST(HoleFiller, FillsComponentsAtTheBorder) {
  EXPECT_EQ(filled("..##"
                   "..##"
                   "####"
                   "###.",
                   4),
            "oo##"
            "oo##"
            "####"
            "###o");
}

TEST(HoleFiller, ZeroIsBackgroundAndAnAbsentObjectStaysAbsent) {
  std::vector<float> logits(20, 1.0F);
  logits[7] = 0;
  HoleFiller filler;
  filler.fill(logits, 5, 4);
  EXPECT_EQ(logits[7], 0.1F);
  std::vector<float> absent(20, kNoObjectLogit);
  filler.fill(absent, 5, 4);
  EXPECT_EQ(std::ranges::count(absent, kNoObjectLogit), 20);
}

}  // namespace
}  // namespace headroom::inference::vos
