// Runs real models on real pictures and checks the findings against known positions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <vector>

#include "inference/preprocessor.h"
#include "inference/task.h"
#include "media/streams/open_stream.h"
#include "unit/inference/onnxruntime_fixture.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using Box = std::array<float, 4>;

// Intersection over union of a detection and the box [left, top, right, bottom].
float iou(const Detection& detection, const Box& box) {
  const float width = std::min(detection.right, box[2]) - std::max(detection.left, box[0]);
  const float height = std::min(detection.bottom, box[3]) - std::max(detection.top, box[1]);
  if (width <= 0 || height <= 0) return 0;
  const float shared = width * height;
  return shared / ((detection.right - detection.left) * (detection.bottom - detection.top) +
                   (box[2] - box[0]) * (box[3] - box[1]) - shared);
}

constexpr Box kMessiFace{221, 96, 259, 134};

// Runs a real model on a picture, with the same steps as a worker: backend, task, pre-processing,
// decoding.
class RealModel : public OnnxRuntime {
 protected:
  // Skips the test if the model is absent.
  void open(const std::string& name) {
    FIND_MODEL(model, name);
    session_.emplace(value_of(backend_->load(*model, one_thread())));
    task_ = value_of(inference::create_task(session_->description(), {}));
    ASSERT_TRUE(task_) << name;
    preprocessor_.emplace(task_->input());
    const auto& specs = session_->description().inputs;
    inputs_.resize(specs.size());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const auto& dims = task_->input_dims()[i];
      inputs_[i].resize(static_cast<std::size_t>(element_count(dims)) * size_of(specs[i].type));
      value_of(session_->bind_input(i, inputs_[i].data(), inputs_[i].size(), specs[i].type, dims));
    }
  }
  // Pre-processes a picture (8-bit BGR), runs the model and decodes. The reference is valid until the next
  // call.
  const FrameFindings& find(const cv::Mat& picture) {
    const auto transform = preprocessor_->run(picture.data, picture.cols, picture.rows, picture.step,
                                              inputs_[task_->input().input_index].data());
    value_of(session_->run());
    value_of(session_->outputs(outputs_));
    findings_.clear();
    task_->decode(outputs_, transform, findings_);
    return findings_;
  }
  std::string task_name() { return std::string(task_->name()); }
  // The best IoU with the box, among the detections of the class with at least this score.
  static float best_iou(const FrameFindings& findings, const Box& box, std::int32_t class_id = 0,
                        float score = 0.4F) {
    float best = 0;
    for (const Detection& found : findings.detections)
      if (found.class_id == class_id && found.score >= score) best = std::max(best, iou(found, box));
    return best;
  }
  std::vector<std::vector<std::byte>> inputs_;  // declared before the session, which reads them
  std::optional<inference::Session> session_;
  std::unique_ptr<inference::Task> task_;
  std::optional<inference::Preprocessor> preprocessor_;
  std::vector<TensorView> outputs_;
  FrameFindings findings_;
};

cv::Mat picture(const std::optional<fs::path>& path) { return path ? cv::imread(*path) : cv::Mat(); }
cv::Mat first_frame(const std::optional<fs::path>& path) {
  if (!path) return {};
  const SourceSpec spec{SourceKind::video, path->string(), 0};
  auto video = media::open_stream(spec, spec.path);
  media::Picture frame;
  if (!video || !(*video)->next(frame)) return {};
  return cv::Mat(frame.height, frame.width, CV_8UC3, frame.bgr.data()).clone();
}

#define OPEN_OR_SKIP(call) \
  call;                    \
  if (IsSkipped() || HasFatalFailure()) return
#define PICTURE_OR_SKIP(name, picture_) \
  const cv::Mat name = picture_;        \
  if (name.empty()) GTEST_SKIP() << absent_message("a picture of opencv-doc or of the shared data")

TEST_F(RealModel, BlazeFaceBackFindsTheFace) {
  OPEN_OR_SKIP(open("face_detection_back_256x256_barracuda.onnx"));
  PICTURE_OR_SKIP(messi, picture(opencv_example("data/messi5.jpg")));
  const FrameFindings& findings = find(messi);
  ASSERT_FALSE(findings.detections.empty());
  EXPECT_GT(iou(findings.detections[0], kMessiFace), 0.95F);  // the best detection is the face
  EXPECT_GT(findings.detections[0].score, 0.8F);
  ASSERT_EQ(findings.detections[0].landmark_count, 6);
  for (std::size_t k = 0; k < 8; k += 2) {  // eyes, nose and mouth lie inside the box
    EXPECT_THAT(findings.detections[0].landmarks[k], testing::AllOf(testing::Gt(215), testing::Lt(265)));
    EXPECT_THAT(findings.detections[0].landmarks[k + 1], testing::AllOf(testing::Gt(90), testing::Lt(140)));
  }
}

// The front model is made for faces that fill most of the picture. In the whole photo, this face is only 9
// pixels wide in the model's input.
TEST_F(RealModel, BlazeFaceFrontFindsTheFaceCloseUp) {
  OPEN_OR_SKIP(open("face_detection_front_128x128_barracuda.onnx"));
  PICTURE_OR_SKIP(messi, picture(opencv_example("data/messi5.jpg")));
  const cv::Rect close_up(180, 60, 120, 110);
  const FrameFindings& findings = find(messi(close_up));
  ASSERT_FALSE(findings.detections.empty());
  EXPECT_GT(iou(findings.detections[0], {221 - 180, 96 - 60, 259 - 180, 134 - 60}), 0.7F);
}

TEST_F(RealModel, YuNetFindsFaces) {
  for (const char* name : {"yunet_n_320_320.onnx", "yunet_n_dynamic.onnx"}) {
    OPEN_OR_SKIP(open(name));
    EXPECT_EQ(task_name(), "yunet");
    PICTURE_OR_SKIP(messi, picture(opencv_example("data/messi5.jpg")));
    EXPECT_GT(best_iou(find(messi), kMessiFace), 0.6F) << name;
    EXPECT_EQ(find(messi).detections.at(0).landmark_count, 5);
    PICTURE_OR_SKIP(humans, picture(shared_data("media/humans_4.jpg")));
    const FrameFindings& people = find(humans);
    EXPECT_GT(best_iou(people, {852, 58, 878, 92}), 0.5F) << name;   // the man
    EXPECT_GT(best_iou(people, {93, 217, 117, 247}), 0.5F) << name;  // the boy in red
  }
}

TEST_F(RealModel, UltraFaceFindsFaces) {
  OPEN_OR_SKIP(open("ultraface_rfb_320.onnx"));
  EXPECT_EQ(task_name(), "ultraface");
  PICTURE_OR_SKIP(messi, picture(opencv_example("data/messi5.jpg")));
  ASSERT_EQ(find(messi).detections.size(), 1U);
  EXPECT_GT(best_iou(find(messi), kMessiFace), 0.6F);
  PICTURE_OR_SKIP(humans, picture(shared_data("media/humans_4.jpg")));
  EXPECT_GT(best_iou(find(humans), {852, 58, 878, 92}), 0.7F);
}

TEST_F(RealModel, DbTextBoxesTheWordsOfTheSign) {
  OPEN_OR_SKIP(open("ch_PP-OCRv4_det_infer.onnx"));
  EXPECT_EQ(task_name(), "db_text");
  PICTURE_OR_SKIP(sign, picture(opencv_example("text/scenetext01.jpg")));
  const FrameFindings& findings = find(sign);
  ASSERT_EQ(findings.quads.size(), 5U);
  // NOTICE, DOUBLE, PARKING, PROHIBITED, AT ALL TIMES: measured by hand in the picture (tight around the
  // letters).
  const Box words[] = {{281, 42, 423, 73},
                       {280, 88, 420, 121},
                       {277, 130, 420, 162},
                       {276, 173, 421, 205},
                       {286, 216, 403, 248}};
  for (std::size_t i = 0; i < 5; ++i) {
    const auto& c = findings.quads[i].corners;
    Detection box;
    box.left = std::min(c[0], c[6]), box.top = std::min(c[1], c[3]);
    box.right = std::max(c[2], c[4]), box.bottom = std::max(c[5], c[7]);
    // No letter is cut.
    EXPECT_LT(box.left, words[i][0]) << i;
    EXPECT_LT(box.top, words[i][1] + 1) << i;
    EXPECT_GT(box.right, words[i][2]) << i;
    EXPECT_GT(box.bottom, words[i][3] - 1) << i;
    EXPECT_GT(iou(box, words[i]), 0.65F)
        << i << ": " << box.left << " " << box.top << " " << box.right << " " << box.bottom;
    EXPECT_GT(findings.quads[i].score, 0.9F);
  }
}

// Lines must lie on edges: compares the gradient near the lines with that of the whole picture.
TEST_F(RealModel, MlsdDrawsLinesOnEdges) {
  PICTURE_OR_SKIP(building, picture(opencv_example("data/building.jpg")));
  cv::Mat gray, across, down, strength;
  cv::cvtColor(building, gray, cv::COLOR_BGR2GRAY);
  cv::Sobel(gray, across, CV_32F, 1, 0);
  cv::Sobel(gray, down, CV_32F, 0, 1);
  cv::magnitude(across, down, strength);
  const double usual = cv::mean(strength)[0];
  for (const char* name : {"mlsd_320x320_tiny.onnx", "mlsd_512x512_large.onnx"}) {
    OPEN_OR_SKIP(open(name));
    EXPECT_EQ(task_name(), "mlsd");
    const FrameFindings& findings = find(building);
    EXPECT_GE(findings.lines.size(), 15U) << name;
    double sum = 0;
    int n = 0;
    for (const LineSegment& line : findings.lines)
      for (float t = 0.1F; t < 0.95F; t += 0.1F, ++n) {
        const cv::Point at(cvRound(line.x0 + t * (line.x1 - line.x0)),
                           cvRound(line.y0 + t * (line.y1 - line.y0)));
        const cv::Rect near = cv::Rect(at.x - 1, at.y - 1, 3, 3) & cv::Rect({0, 0}, strength.size());
        double strongest = 0;
        if (!near.empty()) cv::minMaxLoc(strength(near), nullptr, &strongest);
        sum += strongest;
      }
    EXPECT_GT(sum / n, 2 * usual) << name;
  }
}

TEST_F(RealModel, YoloxFindsThePeopleAtEverySize) {
  PICTURE_OR_SKIP(frame, first_frame(opencv_example("data/vtest.avi")));
  // Three pedestrians and a van, measured in the frame.
  const Box people[] = {{640, 240, 684, 323}, {253, 220, 283, 308}, {500, 157, 530, 233}};
  for (const int side : {416, 640, 1280}) {
    const std::string name = "yolox_nano_" + std::to_string(side) + "x" + std::to_string(side) + ".onnx";
    OPEN_OR_SKIP(open(name));
    EXPECT_EQ(task_name(), "yolox");
    const FrameFindings& findings = find(frame);
    for (const Box& person : people) EXPECT_GT(best_iou(findings, person, 0, 0.7F), 0.8F) << name;
    EXPECT_GT(best_iou(findings, {650, 43, 725, 100}, 7, 0.7F), 0.85F) << name;  // truck
    EXPECT_EQ(task_->class_names().at(0), "person");
  }
}

TEST_F(RealModel, FastestDetFindsThePlayer) {
  OPEN_OR_SKIP(open("FastestDet.onnx"));
  EXPECT_EQ(task_name(), "fastestdet");
  PICTURE_OR_SKIP(messi, picture(opencv_example("data/messi5.jpg")));
  EXPECT_GT(best_iou(find(messi), {70, 47, 455, 335}, 0, 0.8F), 0.5F);
  EXPECT_GT(best_iou(find(messi), {338, 288, 390, 334}, 32, 0.7F), 0.7F);  // the ball
}

// Points of the player, and of the grass and the crowd, in the photo.
TEST_F(RealModel, MasksCoverThePlayer) {
  PICTURE_OR_SKIP(messi, picture(opencv_example("data/messi5.jpg")));
  for (const char* name : {"selfie_segmentation_landscape.onnx", "bodypix_mbv1_050_s16.onnx"}) {
    OPEN_OR_SKIP(open(name));
    EXPECT_EQ(task_name(), "segmentation");
    const FrameFindings& findings = find(messi);
    ASSERT_EQ(findings.masks.size(), 1U) << name;
    const Mask& mask = findings.masks[0];
    const auto at = [&](float x, float y) {
      const auto column =
          static_cast<int>((x - mask.left) / (mask.right - mask.left) * static_cast<float>(mask.width));
      const auto row =
          static_cast<int>((y - mask.top) / (mask.bottom - mask.top) * static_cast<float>(mask.height));
      return mask.values.at(static_cast<std::size_t>(row * mask.width + column));
    };
    EXPECT_GT(at(240, 115), 200) << name << ": face";
    EXPECT_GT(at(245, 180), 200) << name << ": shirt";
    EXPECT_GT(at(270, 240), 200) << name << ": shorts";
    EXPECT_LT(at(100, 320), 50) << name << ": grass";
    EXPECT_LT(at(500, 310), 50) << name << ": grass";
  }
}

TEST_F(RealModel, ModelWithoutImageInputHasNoTask) {
  FIND_MODEL(model, "silero_vad.onnx");
  const auto session = value_of(backend_->load(*model, one_thread()));
  EXPECT_EQ(value_of(inference::create_task(session.description(), {})), nullptr);
}

}  // namespace
}  // namespace headroom::test
