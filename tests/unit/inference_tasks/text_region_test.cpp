#include "inference/tasks/text_region.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace headroom::inference {
namespace {

// A map from a drawing: '#' is 1.
std::vector<float> map_of(const std::vector<std::string>& rows) {
  std::vector<float> map;
  for (const auto& row : rows)
    for (const char c : row) map.push_back(c == '#' ? 1.0F : 0.0F);
  return map;
}

// Counts regions by flood fill; the reference result.
std::size_t flood_fill_count(std::vector<float> map, int width, int height) {
  std::size_t regions = 0;
  std::vector<std::pair<int, int>> stack;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      if (map[static_cast<std::size_t>(y * width + x)] <= 0.5F) continue;
      ++regions;
      stack.emplace_back(x, y);
      while (!stack.empty()) {
        const auto [cx, cy] = stack.back();
        stack.pop_back();
        if (cx < 0 || cy < 0 || cx >= width || cy >= height) continue;
        float& value = map[static_cast<std::size_t>(cy * width + cx)];
        if (value <= 0.5F) continue;
        value = 0;
        for (int dy = -1; dy <= 1; ++dy)
          for (int dx = -1; dx <= 1; ++dx) stack.emplace_back(cx + dx, cy + dy);
      }
    }
  return regions;
}

TEST(RegionFinder, JoinsDiagonalAndLateContacts) {
  RegionFinder finder(9, 5);
  const auto map = map_of({"#.#...#..", "#.#....#.", "###.....#", "........#", "##......."});
  ASSERT_EQ(finder.find(map.data(), 0.5F), 3U);  // a U, a diagonal, a bar
  EXPECT_EQ(finder.outline(0).size(), 6U);       // two runs of one pixel a row, twice, and the bar below
}

TEST(RegionFinder, CountMatchesFloodFill) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const int width = 1 + static_cast<int>(random() % 40);
    const int height = 1 + static_cast<int>(random() % 40);
    std::vector<float> map(static_cast<std::size_t>(width * height));
    for (float& value : map) value = random() % 100 < 20 + static_cast<unsigned>(round) % 50 ? 1.0F : 0.0F;
    RegionFinder finder(width, height);
    const std::size_t found = finder.find(map.data(), 0.5F);
    ASSERT_EQ(found, flood_fill_count(map, width, height)) << "round " << round;
    std::size_t on = 0, outlined = 0;
    for (const float value : map) on += value > 0.5F ? 1 : 0;
    for (std::size_t i = 0; i < found; ++i) outlined += finder.outline(i).size();
    EXPECT_LE(outlined, on);
  }
}

TEST(ConvexHull, OfASquareIsItsCorners) {
  std::vector<Point> points, hull;
  for (int y = 0; y < 5; ++y)
    for (int x = 0; x < 5; ++x) points.push_back({static_cast<float>(x), static_cast<float>(y)});
  convex_hull(points, hull);
  EXPECT_EQ(hull.size(), 4U);
}

TEST(SmallestRectangle, FindsARotatedRectangle) {
  for (const float angle : {0.0F, 0.3F, 0.8F, 1.2F}) {
    // Pixels inside a rectangle of 60×20 at that angle.
    const RotatedRectangle drawn{{100, 80}, {std::cos(angle), std::sin(angle)}, 60, 20};
    std::vector<Point> points, hull;
    for (int y = 0; y < 160; ++y)
      for (int x = 0; x < 200; ++x) {
        const float dx = static_cast<float>(x) - drawn.centre.x;
        const float dy = static_cast<float>(y) - drawn.centre.y;
        if (std::abs(dx * drawn.along.x + dy * drawn.along.y) <= 30 &&
            std::abs(dy * drawn.along.x - dx * drawn.along.y) <= 10)
          points.push_back({static_cast<float>(x), static_cast<float>(y)});
      }
    convex_hull(points, hull);
    const RotatedRectangle found = smallest_rectangle(hull);
    EXPECT_NEAR(found.centre.x, 100, 1) << angle;
    EXPECT_NEAR(found.centre.y, 80, 1) << angle;
    EXPECT_NEAR(std::max(found.width, found.height), 60, 2) << angle;
    EXPECT_NEAR(found.short_side(), 20, 2) << angle;
  }
}

TEST(SmallestRectangle, DegenerateHullsAreFlat) {
  EXPECT_EQ(smallest_rectangle({}).short_side(), 0);
  const std::vector<Point> one{{3, 4}}, two{{3, 4}, {9, 12}};
  EXPECT_EQ(smallest_rectangle(one).short_side(), 0);
  EXPECT_EQ(smallest_rectangle(one).centre.x, 3);
  EXPECT_EQ(smallest_rectangle(two).short_side(), 0);
  EXPECT_NEAR(smallest_rectangle(two).width, 10, 1e-4);
}

TEST(RotatedRectangle, CornersGoClockwiseFromTheTopLeft) {
  const auto corners = RotatedRectangle{{50, 20}, {1, 0}, 40, 10}.corners();
  EXPECT_EQ(corners[0].x, 30);
  EXPECT_EQ(corners[0].y, 15);
  EXPECT_EQ(corners[1].x, 70);
  EXPECT_EQ(corners[1].y, 15);
  EXPECT_EQ(corners[2].x, 70);
  EXPECT_EQ(corners[2].y, 25);
  EXPECT_EQ(corners[3].x, 30);
  EXPECT_EQ(corners[3].y, 25);
}

TEST(MeanInside, CountsOnlyWhatIsInside) {
  std::vector<float> map(100, 0.0F);
  for (int y = 2; y <= 4; ++y)
    for (int x = 3; x <= 7; ++x) map[static_cast<std::size_t>(y * 10 + x)] = 0.8F;
  EXPECT_NEAR(mean_inside(map.data(), 10, 10, {{5, 3}, {1, 0}, 4, 2}), 0.8F, 1e-6);
  EXPECT_NEAR(mean_inside(map.data(), 10, 10, {{5, 3}, {1, 0}, 4, 4}), 0.8F * 3 / 5, 1e-6);
  EXPECT_EQ(mean_inside(map.data(), 10, 10, {{500, 300}, {1, 0}, 4, 4}), 0);
}

}  // namespace
}  // namespace headroom::inference
