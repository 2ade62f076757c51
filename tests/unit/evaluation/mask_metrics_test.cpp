#include "evaluation/mask_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "support/test_support.h"
#include "unit/evaluation/masks_of_text.h"

namespace headroom::evaluation {
namespace {

using test::filled_mask;
using test::mask_of_rows;
using test::rectangle_mask;

double official_f(const BinaryMask& truth, const BinaryMask& prediction) {
  MetricScratch scratch;
  return boundary_measure(truth, prediction, scratch);
}

double reference_f(const BinaryMask& truth, const BinaryMask& prediction) {
  MetricScratch scratch;
  return reference_boundary_measure(truth, prediction, scratch);
}

int at(const BinaryMask& mask, int x, int y) {
  return mask.pixels[static_cast<std::size_t>(y) * static_cast<std::size_t>(mask.width) +
                     static_cast<std::size_t>(x)];
}

// The formulas as their papers and programs state them: each boundary pixel is compared with all others.
namespace slow {

using IsEdge = std::function<bool(const BinaryMask&, int x, int y)>;
using IsNear = std::function<bool(int dx, int dy)>;

bool is_official_edge(const BinaryMask& mask, int x, int y) {
  const bool last_x = x + 1 == mask.width, last_y = y + 1 == mask.height;
  const int here = at(mask, x, y);
  if (last_x && last_y) return false;
  if (last_y) return here != at(mask, x + 1, y);
  if (last_x) return here != at(mask, x, y + 1);
  return here != at(mask, x + 1, y) || here != at(mask, x, y + 1) || here != at(mask, x + 1, y + 1);
}

bool is_gradient(const BinaryMask& mask, int x, int y) {
  for (int j = std::max(0, y - 1); j <= std::min(mask.height - 1, y + 1); ++j)
    for (int i = std::max(0, x - 1); i <= std::min(mask.width - 1, x + 1); ++i)
      if (at(mask, i, j) != at(mask, x, y)) return true;
  return false;
}

std::vector<std::pair<int, int>> edges_of(const BinaryMask& mask, const IsEdge& is_edge) {
  std::vector<std::pair<int, int>> edges;
  for (int y = 0; y < mask.height; ++y)
    for (int x = 0; x < mask.width; ++x)
      if (is_edge(mask, x, y)) edges.emplace_back(x, y);
  return edges;
}

double share_near(const std::vector<std::pair<int, int>>& edges,
                  const std::vector<std::pair<int, int>>& others, const IsNear& is_near) {
  double count = 0;
  for (const auto& edge : edges)
    for (const auto& other : others)
      if (is_near(edge.first - other.first, edge.second - other.second)) {
        ++count;
        break;
      }
  return count / static_cast<double>(edges.size());
}

double f_of(const BinaryMask& truth, const BinaryMask& prediction, const IsEdge& is_edge,
            const IsNear& is_near) {
  const auto a = edges_of(truth, is_edge), b = edges_of(prediction, is_edge);
  if (a.empty() || b.empty()) return a.empty() && b.empty() ? 1 : 0;
  const double recall = share_near(a, b, is_near), precision = share_near(b, a, is_near);
  return precision + recall == 0 ? 0 : 2 * precision * recall / (precision + recall);
}

}  // namespace slow

// Blots of random size, so that boundaries are as long and as far from each other as in real masks.
BinaryMask random_mask(std::mt19937& random, int width, int height) {
  BinaryMask mask = filled_mask(width, height, 0);
  const auto below = [&random](int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  };
  for (int blot = below(4); blot >= 0; --blot) {
    const int left = below(width), top = below(height);
    const int right = std::min(width - 1, left + below(width)),
              bottom = std::min(height - 1, top + below(height));
    for (int y = top; y <= bottom; ++y)
      for (int x = left; x <= right; ++x)
        mask.pixels[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                    static_cast<std::size_t>(x)] ^= 1;
  }
  return mask;
}

TEST(MaskMetrics, FEqualsTheDefinitionForRandomMasks) {
  std::mt19937 random(20);
  const std::pair<int, int> sizes[] = {{1, 1},   {1, 9},   {9, 1},   {2, 2},
                                       {63, 40}, {64, 33}, {65, 70}, {200, 130}};
  for (int round = 0; round < test::repetitions(100); ++round) {
    const auto [width, height] = sizes[static_cast<std::size_t>(round) % std::size(sizes)];
    const BinaryMask truth = random_mask(random, width, height);
    const BinaryMask prediction = random_mask(random, width, height);
    const double diagonal = std::hypot(width, height);
    const double disk = std::ceil(0.008 * diagonal), square = std::max(1.0, std::nearbyint(0.008 * diagonal));
    EXPECT_DOUBLE_EQ(official_f(truth, prediction),
                     slow::f_of(truth, prediction, slow::is_official_edge,
                                [disk](int dx, int dy) { return dx * dx + dy * dy <= disk * disk; }))
        << width << " x " << height << ", round " << round;
    if (!has_pixels(truth) || !has_pixels(prediction)) continue;
    EXPECT_DOUBLE_EQ(
        reference_f(truth, prediction),
        slow::f_of(truth, prediction, slow::is_gradient,
                   [square](int dx, int dy) { return std::abs(dx) <= square && std::abs(dy) <= square; }))
        << width << " x " << height << ", round " << round;
  }
}

TEST(MaskMetrics, RegionSimilarityIsIntersectionOverUnion) {
  EXPECT_DOUBLE_EQ(region_similarity(mask_of_rows({"##..", "##.."}), mask_of_rows({".##.", ".##."})),
                   2.0 / 6);
  EXPECT_DOUBLE_EQ(region_similarity(mask_of_rows({"##"}), mask_of_rows({"##"})), 1);
  EXPECT_DOUBLE_EQ(region_similarity(mask_of_rows({"#."}), mask_of_rows({".#"})), 0);
}

TEST(MaskMetrics, TwoEmptyMasksAreEqual) {
  const BinaryMask empty = filled_mask(20, 10, 0);
  EXPECT_DOUBLE_EQ(region_similarity(empty, empty), 1);
  EXPECT_DOUBLE_EQ(official_f(empty, empty), 1);
  EXPECT_DOUBLE_EQ(reference_f(empty, empty), 1);
}

TEST(MaskMetrics, OneEmptyMaskGivesZero) {
  const BinaryMask empty = filled_mask(20, 10, 0), object = rectangle_mask(20, 10, 3, 3, 8, 7);
  for (const auto& [truth, prediction] : {std::pair{empty, object}, std::pair{object, empty}}) {
    EXPECT_DOUBLE_EQ(region_similarity(truth, prediction), 0);
    EXPECT_DOUBLE_EQ(official_f(truth, prediction), 0);
    EXPECT_DOUBLE_EQ(reference_f(truth, prediction), 0);
  }
}

// A mask that fills the picture has no boundary: then the official F is that of two empty boundaries, but
// the proxy looks at the masks first.
TEST(MaskMetrics, FullMaskHasNoBoundary) {
  const BinaryMask empty = filled_mask(20, 10, 0), full = filled_mask(20, 10, 1);
  EXPECT_DOUBLE_EQ(official_f(full, empty), 1);
  EXPECT_DOUBLE_EQ(reference_f(full, empty), 0);
  EXPECT_DOUBLE_EQ(reference_f(full, full), 1);
  EXPECT_DOUBLE_EQ(reference_f(full, rectangle_mask(20, 10, 3, 3, 8, 7)), 0);
}

// 0.008 × the diagonal of 300 x 400 is 4: a shift by 4 pixels matches everywhere, by 5 hardly anywhere.
TEST(MaskMetrics, RadiusIsAShareOfTheDiagonal) {
  const BinaryMask truth = rectangle_mask(300, 400, 100, 100, 199, 199);
  EXPECT_DOUBLE_EQ(official_f(truth, rectangle_mask(300, 400, 104, 100, 203, 199)), 1);
  EXPECT_LT(official_f(truth, rectangle_mask(300, 400, 105, 100, 204, 199)), 0.6);
  // A corner is nearer by the square than by the disk.
  EXPECT_LT(official_f(truth, rectangle_mask(300, 400, 104, 104, 203, 203)),
            reference_f(truth, rectangle_mask(300, 400, 104, 104, 203, 203)));
}

TEST(MaskMetrics, ScratchOfALargerFrameDoesNotMatter) {
  MetricScratch scratch;
  const BinaryMask large = rectangle_mask(300, 200, 10, 10, 250, 150);
  const BinaryMask a = rectangle_mask(40, 30, 5, 5, 20, 20), b = rectangle_mask(40, 30, 7, 5, 20, 22);
  const double alone = official_f(a, b), proxy = reference_f(a, b);
  boundary_measure(large, filled_mask(300, 200, 0), scratch);
  EXPECT_DOUBLE_EQ(boundary_measure(a, b, scratch), alone);
  EXPECT_DOUBLE_EQ(reference_boundary_measure(a, b, scratch), proxy);
}

}  // namespace
}  // namespace headroom::evaluation
