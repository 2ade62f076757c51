// Tests the tasks other than YOLO, with hand-made outputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "made_model.h"

namespace headroom::inference {
namespace {

using test::model;
using test::Output;
using test::spec;

FrameFindings decode(const ModelDescription& description, const std::vector<TensorView>& outputs, int width,
                     int height, const TaskOptions& options = {}) {
  return test::decode(*test::make_task(description, options), outputs, width, height);
}

void expect_box(const Detection& found, const std::array<float, 4>& box) {
  EXPECT_NEAR(found.left, box[0], 1e-3);
  EXPECT_NEAR(found.top, box[1], 1e-3);
  EXPECT_NEAR(found.right, box[2], 1e-3);
  EXPECT_NEAR(found.bottom, box[3], 1e-3);
}

const ModelDescription kMaskModel = model({spec("in", {1, 3, 32, 32})}, {spec("mask", {1, 1, 32, 32})});

TEST(DbText, GrowsTextBlockByUnclipDistance) {
  Output map({1, 1, 320, 320});
  // Pixels 50..149 by 40..59: a rectangle of 99×19 between pixel centres.
  for (int y = 40; y < 60; ++y)
    for (int x = 50; x < 150; ++x) map.at({0, 0, y, x}) = 0.9F;
  for (int x = 200; x < 300; ++x) map.at({0, 0, 200, x}) = 0.9F;  // too thin
  for (int y = 100; y < 120; ++y)
    for (int x = 200; x < 300; ++x) map.at({0, 0, y, x}) = 0.5F;  // not sure enough
  const auto findings =
      decode(model({spec("x", {1, 3, 320, 320})}, {spec("sigmoid_0.tmp_0", {1, 1, 320, 320})}), {map.view()},
             640, 640);
  ASSERT_EQ(findings.quads.size(), 1U);
  const float distance = 99.0F * 19 * 1.5F / (2 * (99 + 19));
  const auto& quad = findings.quads[0];
  EXPECT_NEAR(quad.score, 0.9F, 1e-5);
  EXPECT_NEAR(quad.corners[0], 2 * (50 - distance), 0.01);
  EXPECT_NEAR(quad.corners[1], 2 * (40 - distance), 0.01);
  EXPECT_NEAR(quad.corners[4], 2 * (149 + distance), 0.01);
  EXPECT_NEAR(quad.corners[5], 2 * (59 + distance), 0.01);
}

TEST(Mlsd, EndsLieAtTheCentrePlusTheOffsets) {
  Output scores({1, 160, 160, 1}), offsets({1, 160, 160, 4});
  const auto put = [&](std::int64_t y, std::int64_t x, float score, const std::vector<float>& offset) {
    scores.at({0, y, x, 0}) = score;
    offsets.put({0, y, x, 0}, 3, offset);
  };
  put(80, 40, 0.5F, {-20, -10, 20, 10});
  put(10, 100, 0.9F, {-30, 0, 30, 0});
  put(90, 90, 0.9F, {-5, 0, 5, 0});     // too short
  put(100, 90, 0.1F, {-30, 0, 30, 0});  // not sure enough
  const auto findings = decode(model({spec("in", {1, 320, 320, 4})},
                                     {spec("offsets", {1, 160, 160, 4}), spec("scores", {1, 160, 160, 1})}),
                               {offsets.view(), scores.view()}, 640, 320);
  ASSERT_EQ(findings.lines.size(), 2U);
  EXPECT_EQ(findings.lines[0].score, 0.9F);  // best first
  EXPECT_EQ(findings.lines[0].x0, 280);
  EXPECT_EQ(findings.lines[0].y0, 20);
  EXPECT_EQ(findings.lines[1].x0, 80);
  EXPECT_EQ(findings.lines[1].y0, 140);
  EXPECT_EQ(findings.lines[1].x1, 240);
  EXPECT_EQ(findings.lines[1].y1, 180);
}

TEST(FastestDet, DecodesCell) {
  Output output({1, 85, 22, 22});
  // Half the width, a quarter of the height.
  output.put({0, 0, 3, 5}, 1, {0.9F, std::atanh(0.5F), 0, 0, -std::log(3.0F)});
  output.at({0, 5 + 16, 3, 5}) = 0.8F;
  const auto findings = decode(model({spec("in", {1, 3, 352, 352})}, {spec("out", {1, 85, 22, 22})}),
                               {output.view()}, 352, 352);
  ASSERT_EQ(findings.detections.size(), 1U);
  const Detection& found = findings.detections[0];
  EXPECT_EQ(found.class_id, 16);
  EXPECT_NEAR(found.score, std::pow(0.9F, 0.6F) * std::pow(0.8F, 0.4F), 1e-5);
  expect_box(found, {88 - 88, 48 - 44, 88 + 88, 48 + 44});
}

TEST(UltraFace, BoxesAreFractions) {
  Output scores({1, 3, 2}), boxes({1, 3, 4});
  scores.at({0, 1, 1}) = 0.9F;
  scores.at({0, 2, 0}) = 0.9F;  // background
  boxes.put({0, 1, 0}, 2, {0.25F, 0.5F, 0.5F, 1.5F});
  const auto findings =
      decode(model({spec("in", {1, 3, 240, 320})}, {spec("scores", {1, 3, 2}), spec("boxes", {1, 3, 4})}),
             {scores.view(), boxes.view()}, 1000, 500);
  ASSERT_EQ(findings.detections.size(), 1U);
  expect_box(findings.detections[0], {250, 250, 500, 500});  // clipped at the bottom
}

TEST(Segmentation, ProbabilitiesAndLogitsGiveTheSameMask) {
  Output probabilities({1, 1, 32, 32}, 0.1F), logits({1, 1, 32, 32}, std::log(0.1F / 0.9F));
  for (int x = 0; x < 10; ++x) {
    probabilities.at({0, 0, 4, x}) = 0.8F;
    logits.at({0, 0, 4, x}) = std::log(4.0F);
  }
  const auto from_probabilities = decode(kMaskModel, {probabilities.view()}, 100, 50);
  const auto from_logits = decode(kMaskModel, {logits.view()}, 100, 50);
  ASSERT_EQ(from_probabilities.masks.size(), 1U);
  ASSERT_EQ(from_logits.masks.size(), 1U);
  EXPECT_EQ(from_probabilities.masks[0].values, from_logits.masks[0].values);
  EXPECT_EQ(from_probabilities.masks[0].values[4 * 32 + 3], 204);
  EXPECT_EQ(from_probabilities.masks[0].right, 100);
  EXPECT_EQ(from_probabilities.masks[0].bottom, 50);
}

TEST(Segmentation, RoundingAboveOneIsNotALogit) {
  Output probabilities({1, 1, 32, 32}, 0.01F);
  probabilities.at({0, 0, 4, 4}) = 1.0000001F;
  const auto findings = decode(kMaskModel, {probabilities.view()}, 32, 32);
  ASSERT_EQ(findings.masks.size(), 1U);
  EXPECT_EQ(std::count_if(findings.masks[0].values.begin(), findings.masks[0].values.end(),
                          [](std::uint8_t value) { return value > 127; }),
            1);
}

TEST(Segmentation, NoMaskWithoutProbabilityAboveHalf) {
  Output low({1, 1, 32, 32}, 0.5F);
  EXPECT_EQ(decode(kMaskModel, {low.view()}, 9, 9).count(), 0);
}

TEST(Segmentation, MakesMaskForEveryClassExceptBackground) {
  for (const bool planes : {true, false}) {
    const test::Dims dims = planes ? test::Dims{1, 5, 32, 32} : test::Dims{1, 32, 32, 5};
    const test::Dims input = planes ? test::Dims{1, 3, 32, 32} : test::Dims{1, 32, 32, 3};
    Output output(dims);
    const auto at = [&](std::int64_t c, std::int64_t y, std::int64_t x) -> float& {
      return planes ? output.at({0, c, y, x}) : output.at({0, y, x, c});
    };
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 32; ++x) at(x < 8 ? 2 : y < 8 ? 4 : 0, y, x) = 3;
    const auto findings = decode(model({spec("in", input)}, {spec("out", dims)}), {output.view()}, 64, 64);
    ASSERT_EQ(findings.masks.size(), 2U);
    EXPECT_EQ(findings.masks[0].class_id, 2);
    EXPECT_EQ(findings.masks[1].class_id, 4);
    EXPECT_EQ(findings.masks[0].values[0], 255);
    EXPECT_EQ(findings.masks[1].values[0], 0);
    EXPECT_EQ(findings.masks[1].values[9], 255);
  }
}

TEST(Segmentation, BodyPixMapReachesHalfACellBeyondThePicture) {
  TaskOptions options;
  options.image_size = 320;
  const auto description = model({spec("input", {1, -1, -1, 3})},
                                 {spec("heatmaps", {1, -1, -1, 17}), spec("segments", {1, -1, -1, 1})});
  const auto task = test::make_task(description, options);
  EXPECT_EQ(task->input_dims()[0], (test::Dims{1, 321, 321, 3}));
  Output heatmaps({1, 21, 21, 17}), segments({1, 21, 21, 1}, 2);
  const FrameFindings findings = test::decode(*task, {heatmaps.view(), segments.view()}, 642, 321);
  ASSERT_EQ(findings.masks.size(), 1U);
  EXPECT_NEAR(findings.masks[0].left, -15, 0.01);
  EXPECT_NEAR(findings.masks[0].right, 657, 0.01);
  EXPECT_NEAR(findings.masks[0].top, -7.5, 0.01);
}

TEST(Classification, AppliesSoftmaxUnlessProbabilities) {
  TaskOptions options;
  options.forced = "classification";
  const auto description = model({spec("in", {1, 1, 28, 28})}, {spec("out", {1, 3})});
  Output logits({1, 3}), probabilities({1, 3});
  logits.at({0, 2}) = 2;
  probabilities.values() = {0.1F, 0.7F, 0.2F};
  auto findings = decode(description, {logits.view()}, 10, 20, options);
  ASSERT_EQ(findings.detections.size(), 1U);
  EXPECT_EQ(findings.detections[0].class_id, 2);
  EXPECT_NEAR(findings.detections[0].score, std::exp(2.0) / (std::exp(2.0) + 2), 1e-5);
  EXPECT_EQ(findings.detections[0].bottom, 20);
  findings = decode(description, {probabilities.view()}, 10, 20, options);
  ASSERT_EQ(findings.detections.size(), 1U);
  EXPECT_NEAR(findings.detections[0].score, 0.7F, 1e-6);
}

}  // namespace
}  // namespace headroom::inference
