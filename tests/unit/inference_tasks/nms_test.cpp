#include "inference/tasks/nms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

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

TEST(NonMaximumSuppression, SuppressesAboveTheThresholdNotAtIt) {
  const std::vector<Candidate> halves{{0, 0, 10, 10, 0.9F, 0, 0}, {0, 0, 10, 5, 0.8F, 0, 0}};  // IoU 0.5
  EXPECT_EQ(run_nms(halves, 0.5F).size(), 2U);
  EXPECT_EQ(run_nms(halves, 0.49F).size(), 1U);
}

TEST(NonMaximumSuppression, ClassesDoNotSuppressEachOther) {
  const std::vector<Candidate> same{{0, 0, 10, 10, 0.9F, 0, 0}, {0, 0, 10, 10, 0.8F, 1, 0}};
  EXPECT_EQ(run_nms(same, 0.5F).size(), 2U);
}

TEST(NonMaximumSuppression, EmptyAndDegenerateBoxesPass) {
  EXPECT_TRUE(run_nms({}, 0.5F).empty());
  const std::vector<Candidate> points{
      {5, 5, 5, 5, 0.9F, 0, 0}, {5, 5, 5, 5, 0.8F, 0, 0}, {9, 9, 3, 3, -1, 0, 0}};
  EXPECT_EQ(run_nms(points, 0.5F), brute_force(points, 0.5F));
}

}  // namespace
}  // namespace headroom::inference
