#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "inference/tasks/detections.h"
#include "inference/tasks/text_region.h"

namespace headroom::inference {
namespace {

// A direct implementation of the definition: stable sort, then each kept box suppresses later boxes.
std::vector<std::uint32_t> brute_force(const std::vector<Candidate>& boxes, float threshold) {
  std::vector<std::uint32_t> order(boxes.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return boxes[a].score > boxes[b].score; });
  if (order.size() > 30000) order.resize(30000);
  std::vector<bool> suppressed(order.size(), false);
  std::vector<std::uint32_t> kept;
  const auto edges = [&](std::uint32_t index) {
    Candidate box = boxes[index];
    const float offset = static_cast<float>(box.class_id) * 7680.0F;
    box.left += offset, box.top += offset, box.right += offset, box.bottom += offset;
    return box;
  };
  const auto area = [](const Candidate& box) { return (box.right - box.left) * (box.bottom - box.top); };
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (suppressed[i]) continue;
    kept.push_back(order[i]);
    const Candidate a = edges(order[i]);
    for (std::size_t j = i + 1; j < order.size(); ++j) {
      const Candidate b = edges(order[j]);
      const float width = std::max(0.0F, std::min(a.right, b.right) - std::max(a.left, b.left));
      const float height = std::max(0.0F, std::min(a.bottom, b.bottom) - std::max(a.top, b.top));
      const float shared = width * height;
      if (shared / (area(a) + area(b) - shared) > threshold) suppressed[j] = true;
    }
  }
  if (kept.size() > 300) kept.resize(300);
  return kept;
}

std::vector<std::uint32_t> run_nms(const std::vector<Candidate>& boxes, float threshold) {
  NonMaximumSuppression nms(threshold);
  const auto kept = nms.run(boxes);
  return {kept.begin(), kept.end()};
}

std::vector<Candidate> random_boxes(std::mt19937& random, std::size_t n, int classes, int objects,
                                    bool ties) {
  std::uniform_real_distribution<float> unit(0, 1);
  std::vector<Candidate> boxes(n);
  for (Candidate& box : boxes) {
    const auto object = static_cast<float>(random() % static_cast<unsigned>(objects));
    const float x = object * 37 + unit(random) * 12;
    const float y = object * 11 + unit(random) * 12;
    box = {x,
           y,
           x + 20 + unit(random) * 30,
           y + 20 + unit(random) * 30,
           unit(random),
           static_cast<std::int32_t>(random() % static_cast<unsigned>(classes)),
           0};
    if (ties) box.score = static_cast<float>(random() % 4) / 4;
  }
  return boxes;
}

TEST(NonMaximumSuppression, EqualsBruteForce) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const auto boxes = random_boxes(random, random() % 400, 1 + static_cast<int>(random() % 80),
                                    1 + static_cast<int>(random() % 40), round % 3 == 0);
    const float threshold = static_cast<float>(random() % 10) / 10;
    ASSERT_EQ(run_nms(boxes, threshold), brute_force(boxes, threshold)) << "round " << round;
  }
}

TEST(NonMaximumSuppression, ManyCandidatesEqualBruteForce) {
  std::mt19937 random(6);
  const auto boxes = random_boxes(random, 5000, 80, 600, false);
  EXPECT_EQ(run_nms(boxes, 0.45F), brute_force(boxes, 0.45F));
}

TEST(NonMaximumSuppression, KeepsAtMost300) {
  std::vector<Candidate> boxes;
  for (int i = 0; i < 1000; ++i)
    boxes.push_back({static_cast<float>(i) * 7, 0, static_cast<float>(i) * 7 + 5, 5, 0.5F, 0, 0});
  const auto kept = run_nms(boxes, 0.5F);
  ASSERT_EQ(kept.size(), 300U);
  EXPECT_EQ(kept[299], 299U);  // equal scores keep their order
}

TEST(NonMaximumSuppression, LooksAtTheBest30000Only) {
  // 30,000 copies of one box leave no place for boxes with lower scores, however far away.
  std::vector<Candidate> boxes(30000, Candidate{0, 0, 10, 10, 0.9F, 0, 0});
  boxes.push_back({500, 500, 510, 510, 0.5F, 0, 0});
  EXPECT_EQ(run_nms(boxes, 0.5F).size(), 1U);
  boxes.erase(boxes.begin());
  EXPECT_EQ(run_nms(boxes, 0.5F).size(), 2U);
}

TEST(NonMaximumSuppression, SuppressesAboveTheThresholdInOneClass) {
  const std::vector<Candidate> halves{{0, 0, 10, 10, 0.9F, 0, 0}, {0, 0, 10, 5, 0.8F, 0, 0}};  // IoU 0.5
  EXPECT_EQ(run_nms(halves, 0.5F).size(), 2U) << "not at the threshold";
  EXPECT_EQ(run_nms(halves, 0.49F).size(), 1U);
  EXPECT_EQ(run_nms({{0, 0, 10, 10, 0.9F, 0, 0}, {0, 0, 10, 10, 0.8F, 1, 0}}, 0.5F).size(), 2U);
}

TEST(NonMaximumSuppression, EmptyAndDegenerateBoxesPass) {
  EXPECT_TRUE(run_nms({}, 0.5F).empty());
  const std::vector<Candidate> points{
      {5, 5, 5, 5, 0.9F, 0, 0}, {5, 5, 5, 5, 0.8F, 0, 0}, {9, 9, 3, 3, -1, 0, 0}};
  EXPECT_EQ(run_nms(points, 0.5F), brute_force(points, 0.5F));
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
  const std::string drawing =
      "#.#...#.."
      "#.#....#."
      "###.....#"
      "........#"
      "##.......";
  std::vector<float> map;
  for (const char c : drawing) map.push_back(c == '#' ? 1.0F : 0.0F);
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
    if (angle == 0) {
      EXPECT_EQ(hull.size(), 4U);
    }
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
  std::vector<std::pair<float, float>> corners;
  for (const Point& corner : RotatedRectangle{{50, 20}, {1, 0}, 40, 10}.corners())
    corners.emplace_back(corner.x, corner.y);
  EXPECT_THAT(corners, testing::ElementsAre(testing::Pair(30, 15), testing::Pair(70, 15),
                                            testing::Pair(70, 25), testing::Pair(30, 25)));
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
