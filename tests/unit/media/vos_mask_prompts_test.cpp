#include "media/vos/mask_prompts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "unit/evaluation/masks_of_text.h"

namespace headroom::media::vos {
namespace {

using test::filled_mask;
using test::mask_of_rows;

std::pair<float, float> place(const std::optional<PromptPoint>& point) {
  return point ? std::pair{point->x, point->y} : std::pair{-1.0F, -1.0F};
}
using Place = std::pair<float, float>;

int at(const BinaryMask& mask, int x, int y) {
  if (x < 0 || y < 0 || x >= mask.width || y >= mask.height) return 0;
  return mask.pixels[static_cast<std::size_t>(y * mask.width + x)];
}

// The squared distance of a pixel to the nearest one outside, by comparing with all.
int distance_to_outside(const BinaryMask& mask, int x, int y) {
  int nearest = 1 << 30;
  for (int j = -1; j <= mask.height; ++j)
    for (int i = -1; i <= mask.width; ++i)
      if (at(mask, i, j) == 0) nearest = std::min(nearest, (x - i) * (x - i) + (y - j) * (y - j));
  return nearest;
}

TEST(InnerPoint, IsFarthestFromTheOutside) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const int width = 1 + static_cast<int>(random() % 30), height = 1 + static_cast<int>(random() % 20);
    BinaryMask mask = filled_mask(width, height, round % 10 == 0 ? 1 : 0);
    const auto density = 1 + random() % 12;
    for (auto& pixel : mask.pixels)
      if (random() % density != 0) pixel = 1;
    int farthest = 0;
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        if (at(mask, x, y) != 0) farthest = std::max(farthest, distance_to_outside(mask, x, y));
    const auto point = inner_point(mask);
    ASSERT_EQ(point.has_value(), farthest > 0);
    if (!point) continue;
    ASSERT_EQ(at(mask, static_cast<int>(point->x), static_cast<int>(point->y)), 1);
    EXPECT_EQ(distance_to_outside(mask, static_cast<int>(point->x), static_cast<int>(point->y)), farthest)
        << width << " x " << height << ", round " << round;
  }
}

TEST(InnerPoint, IsInsideWhereTheMeanIsNot) {
  const BinaryMask ring =
      mask_of_rows({"#######", "#######", "##...##", "##...##", "##...##", "#######", "#######"});
  EXPECT_EQ(place(reference_point(ring)), (Place{3, 3}));  // in the hole
  const auto point = inner_point(ring);
  ASSERT_TRUE(point);
  EXPECT_EQ(at(ring, static_cast<int>(point->x), static_cast<int>(point->y)), 1);
  EXPECT_TRUE(point->positive);
}

TEST(ReferencePoint, IsTheTruncatedMean) {
  EXPECT_EQ(place(reference_point(mask_of_rows({"....", ".##.", ".#.."}))), (Place{1, 1}));
  EXPECT_EQ(place(reference_point(mask_of_rows({"..##"}))), (Place{2, 0}));
}

// Diagonal neighbours are separate components.
TEST(ReferencePoint, OfSeveralComponentsIsTheFirst) {
  EXPECT_EQ(place(reference_point(mask_of_rows({"...##", "...##", "##...", "##..."}))), (Place{3, 0}));
  EXPECT_EQ(place(reference_point(mask_of_rows({"#..", ".##", ".##"}))), (Place{0, 0}));
  // A component that goes back to the left below is one.
  EXPECT_EQ(place(reference_point(mask_of_rows({"..#", "..#", "###"}))), (Place{1, 1}));
}

TEST(Box, IncludesItsLastRowAndColumn) {
  const auto box = box_of(mask_of_rows({".....", ".##..", "...#.", "....."}));
  ASSERT_TRUE(box);
  EXPECT_EQ(box->left, 1);
  EXPECT_EQ(box->top, 1);
  EXPECT_EQ(box->right, 3);
  EXPECT_EQ(box->bottom, 2);
}

TEST(PromptFromMask, MakesEachKind) {
  const BinaryMask mask = mask_of_rows({".###.", ".###.", ".###."});
  const auto points = prompt_from_mask(mask, PromptKind::points, PointRule::inside, 4);
  ASSERT_TRUE(points);
  EXPECT_EQ(points->frame, 4);
  ASSERT_EQ(points->points.size(), 1U);
  EXPECT_EQ(points->points[0].x, 2);
  EXPECT_EQ(points->points[0].y, 1);
  EXPECT_FALSE(points->box || points->mask);
  const auto box = prompt_from_mask(mask, PromptKind::box, PointRule::inside, 0);
  ASSERT_TRUE(box && box->box);
  EXPECT_TRUE(box->points.empty());
  const auto whole = prompt_from_mask(mask, PromptKind::mask, PointRule::inside, 0);
  ASSERT_TRUE(whole && whole->mask);
  EXPECT_EQ(whole->mask->pixels, mask.pixels);
}

TEST(PromptFromMask, OfAnEmptyMaskIsNothing) {
  const BinaryMask empty = filled_mask(5, 4, 0);
  for (const PromptKind kind : {PromptKind::points, PromptKind::box, PromptKind::mask})
    for (const PointRule rule : {PointRule::inside, PointRule::reference})
      EXPECT_FALSE(prompt_from_mask(empty, kind, rule, 0));
}

}  // namespace
}  // namespace headroom::media::vos
