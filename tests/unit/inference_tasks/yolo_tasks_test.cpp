// Tests the YOLO heads without a model: boxes in the frame are encoded into outputs, and decoding must
// return them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "made_model.h"

namespace headroom::inference {
namespace {

using test::decode;
using test::make_task;
using test::Output;
using test::picture_model;
using test::spec;

struct YoloBox {
  float left, top, right, bottom;
  std::int32_t class_id;
  float score;
};

std::unique_ptr<Task> make(const ModelDescription& model, const std::string& expected) {
  auto task = make_task(model);
  EXPECT_EQ(task->name(), expected);
  return task;
}

void expect_boxes(const FrameFindings& findings, std::vector<YoloBox> boxes, float tolerance) {
  std::sort(boxes.begin(), boxes.end(), [](const YoloBox& a, const YoloBox& b) { return a.score > b.score; });
  ASSERT_EQ(findings.detections.size(), boxes.size());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const Detection& found = findings.detections[i];
    EXPECT_NEAR(found.left, boxes[i].left, tolerance) << i;
    EXPECT_NEAR(found.top, boxes[i].top, tolerance) << i;
    EXPECT_NEAR(found.right, boxes[i].right, tolerance) << i;
    EXPECT_NEAR(found.bottom, boxes[i].bottom, tolerance) << i;
    EXPECT_EQ(found.class_id, boxes[i].class_id) << i;
    EXPECT_NEAR(found.score, boxes[i].score, 1e-5) << i;
  }
}

// 1280×722 into 640×640: ratio 0.5, 361 rows, padding 139.5, which ultralytics' picture rounds to 139.
constexpr int kWidth = 1280, kHeight = 722;
const std::vector<YoloBox> kBoxes{{100, 50, 300, 250, 0, 0.9F},
                                  {500.5F, 400.25F, 640, 600, 79, 0.8F},
                                  {110, 55, 310, 255, 2, 0.7F},  // overlaps the first, another class
                                  {0, 0, 1280, 722, 16, 0.6F}};

// Centre and size in input pixels, with this much padding above.
std::vector<float> encoded(const YoloBox& box, float padding) {
  return {(box.left + box.right) / 4, (box.top + box.bottom) / 4 + padding, (box.right - box.left) / 2,
          (box.bottom - box.top) / 2};
}

TEST(YoloV8, DecodesBoxesThroughRoundedLetterbox) {
  Output output({1, 84, 8400});
  std::int64_t anchor = 17;
  for (const YoloBox& box : kBoxes) {
    output.put({0, 0, anchor}, 1, encoded(box, 139));
    output.at({0, 4 + box.class_id, anchor}) = box.score;
    output.at({0, 5, anchor}) = 0.1F;  // another class, weaker
    anchor += 2001;
  }
  // A weaker duplicate of the first box, which must be suppressed, and a box below the confidence.
  for (int i = 0; i < 4; ++i) output.at({0, i, 18}) = output.at({0, i, 17}) + 1;
  output.at({0, 4, 18}) = 0.5F;
  output.at({0, 4, 8399}) = 0.25F;  // not above 0.25
  auto task = make(picture_model({spec("output0", {1, 84, 8400})}), "yolov8");
  expect_boxes(decode(*task, {output.view()}, kWidth, kHeight), kBoxes, 0.01F);
  EXPECT_EQ(task->class_names()[16], "dog");
}

TEST(YoloV5, DecodesBoxesThroughUnroundedPadding) {
  Output output({1, 25200, 85});
  std::int64_t anchor = 5;
  for (const YoloBox& box : kBoxes) {
    output.put({0, anchor, 0}, 2, encoded(box, 139.5F));
    output.at({0, anchor, 4}) = 0.95F;
    output.at({0, anchor, 5 + box.class_id}) = box.score / 0.95F;
    anchor += 6007;
  }
  output.at({0, 25199, 4}) = 0.9F;  // high objectness, but no class
  output.at({0, 25198, 4}) = 0.2F;
  output.at({0, 25198, 9}) = 1;
  auto task = make(picture_model({spec("output", {1, 25200, 85})}), "yolov5");
  expect_boxes(decode(*task, {output.view()}, kWidth, kHeight), kBoxes, 0.01F);
}

TEST(YoloX, DecodesGrid) {
  Output output({1, 8400, 85});
  // Frame 640×640, so no letterbox. Cell (10, 20) of stride 16: anchor 6400 + 20·40 + 10.
  const std::int64_t anchor = 6400 + 20 * 40 + 10;
  output.put({0, anchor, 0}, 2, {0.5F, -0.25F, std::log(4.0F), std::log(2.0F), 0.8F});
  output.at({0, anchor, 5 + 3}) = 0.5F;
  auto task = make(picture_model({spec("output", {1, 8400, 85})}), "yolox");
  EXPECT_EQ(task->input().channels, ChannelOrder::bgr);
  EXPECT_EQ(task->input().resize, Resize::letterbox_top_left);
  EXPECT_EQ(task->input().scale[0], 1);
  expect_boxes(decode(*task, {output.view()}, 640, 640), {{168 - 32, 316 - 16, 168 + 32, 316 + 16, 3, 0.4F}},
               1e-3F);
}

TEST(YoloEnd2End, FiltersByConfidenceOnly) {
  Output output({1, 300, 6});
  const auto put = [&](std::int64_t row, const std::vector<float>& values) {
    output.put({0, row, 0}, 2, values);
  };
  put(0, {10, 20, 110, 120, 0.9F, 5});
  put(1, {11, 21, 111, 121, 0.8F, 5});  // would be suppressed, but is not
  put(2, {10, 20, 30, 40, 0.2F, 1});
  put(3, {NAN, 20, 30, 40, 0.9F, 1});
  put(4, {10, 20, 30, 40, 0.9F, -3});
  put(5, {10, 20, 30, 40, 0.9F, INFINITY});
  auto task = make(picture_model({spec("output0", {1, 300, 6})}), "yolo_end2end");
  expect_boxes(decode(*task, {output.view()}, 640, 640),
               {{10, 20, 110, 120, 5, 0.9F}, {11, 21, 111, 121, 5, 0.8F}}, 1e-3F);
}

TEST(YoloSegmentation, ClipsMaskToItsBox) {
  Output boxes({1, 116, 8400}), prototypes({1, 32, 160, 160}, -1);
  const std::int64_t anchor = 4000;
  // A box of 80..240 by 160..240 input pixels: prototype cells 20..60 by 40..60.
  boxes.put({0, 0, anchor}, 1, {160, 200, 160, 80});
  boxes.at({0, 4 + 7, anchor}) = 0.9F;
  boxes.at({0, 84, anchor}) = 10;  // prototype 0 only: a disk of cells is positive
  for (int y = 45; y < 55; ++y)
    for (int x = 30; x < 50; ++x) prototypes.at({0, 0, y, x}) = 1;
  const auto model = picture_model({spec("output0", {1, 116, 8400}), spec("output1", {1, 32, 160, 160})},
                                   {{"task", "segment"}, {"stride", "32"}});
  auto task = make(model, "yolo_segmentation");
  const FrameFindings findings = decode(*task, {boxes.view(), prototypes.view()}, 1280, 1280);
  expect_boxes(findings, {{160, 320, 480, 480, 7, 0.9F}}, 0.01F);
  ASSERT_EQ(findings.masks.size(), 1U);
  const Mask& mask = findings.masks[0];
  EXPECT_EQ(mask.class_id, 7);
  EXPECT_EQ(mask.width, 40);
  EXPECT_EQ(mask.height, 20);
  EXPECT_NEAR(mask.left, 160, 1e-3);
  EXPECT_NEAR(mask.right, 480, 1e-3);
  EXPECT_NEAR(mask.top, 320, 1e-3);
  EXPECT_NEAR(mask.bottom, 480, 1e-3);
  for (int y = 0; y < 20; ++y)
    for (int x = 0; x < 40; ++x) {
      const bool inside = y >= 5 && y < 15 && x >= 10 && x < 30;
      ASSERT_EQ(mask.values[static_cast<std::size_t>(y * 40 + x)], inside ? 255 : 0) << x << "," << y;
    }
  EXPECT_EQ(findings.count(), 1);  // a mask and its box count as one finding
}

TEST(YoloTasks, NamesComeFromMetadataThenCoco) {
  const auto names_of = [](const ModelDescription& model) { return make_task(model)->class_names(); };
  EXPECT_THAT(
      names_of(picture_model({spec("o", {1, 6, 8400})}, {{"names", "{0: 'cat', 1: \"driver's seat\"}"}})),
      testing::ElementsAre("cat", "driver's seat"));
  EXPECT_EQ(names_of(picture_model({spec("o", {1, 84, 8400})})).size(), 80U);
  EXPECT_TRUE(names_of(picture_model({spec("o", {1, 6, 8400})})).empty());
  EXPECT_TRUE(names_of(picture_model({spec("o", {1, 6, 8400})}, {{"names", "{0: 'cat'}"}})).empty());
}

TEST(YoloTasks, DynamicSidesFollowTheImageSizeRoundedToTheStride) {
  TaskOptions options;
  options.image_size = 500;
  const auto model = test::model({spec("images", {-1, 3, -1, -1})}, {spec("output0", {-1, 84, -1})},
                                 {{"task", "detect"}, {"stride", "32"}});
  const auto task = make_task(model, options);
  EXPECT_EQ(task->name(), "yolov8");
  EXPECT_EQ(task->input_dims()[0], (test::Dims{1, 3, 512, 512}));
}

TEST(YoloTasks, BoxesAreClippedToTheFrame) {
  Output output({1, 84, 8400});
  output.put({0, 0, 0}, 1, {10, 630, 100, 100, 0.9F});
  auto task = make(picture_model({spec("output0", {1, 84, 8400})}), "yolov8");
  expect_boxes(decode(*task, {output.view()}, 640, 640), {{0, 580, 60, 640, 0, 0.9F}}, 1e-3F);
}

}  // namespace
}  // namespace headroom::inference
