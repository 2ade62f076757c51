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
#include <opencv2/videoio.hpp>
#include <string>
#include <vector>

#include "inference/backend.h"
#include "inference/preprocessor.h"
#include "inference/task.h"
#include "support/test_support.h"

namespace headroom::test {
namespace {

namespace fs = std::filesystem;
using Box = std::array<float, 4>;

// The folder of pictures and a video from Debian's package opencv-doc.
constexpr const char* kMessi = "data/messi5.jpg";
constexpr const char* kSceneText = "text/scenetext01.jpg";
constexpr const char* kPedestrianVideo = "data/vtest.avi";

// The plug-in of this build.
fs::path plugin_path() { return built_path("bin/libheadroom_backend_onnxruntime.so"); }

// Runs a real model on a picture, with the same steps as a worker: backend, task, pre-processing,
// decoding.
class ModelRunner {
 public:
  // The error names what is missing: plug-in, runtime or model.
  static Result<ModelRunner> open(const fs::path& model, const inference::TaskOptions& options);

  inference::Task& task() { return *task_; }
  // Pre-processes a picture (8-bit BGR), runs the model and decodes. The reference is valid until the next
  // call.
  Result<const FrameFindings*> find(const cv::Mat& picture);

 private:
  explicit ModelRunner(inference::Session session) : session_(std::move(session)) {}
  inference::Session session_;
  std::unique_ptr<inference::Task> task_;
  std::unique_ptr<inference::Preprocessor> preprocessor_;
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<TensorView> outputs_;
  FrameFindings findings_;
};

Result<ModelRunner> ModelRunner::open(const fs::path& model, const inference::TaskOptions& options) {
  const inference::BackendFile plugin{"onnxruntime", plugin_path()};
  auto backend = inference::Backend::open(plugin);
  if (!backend) return forward_error(backend);
  if (auto started = backend->start(); !started) return forward_error(started);
  RuntimeSettings settings;
  settings.threads = 1;
  auto session = backend->load(model, settings);
  if (!session) return forward_error(session);
  ModelRunner runner(std::move(*session));
  auto task = inference::create_task(runner.session_.description(), options);
  if (!task) return forward_error(task);
  if (*task == nullptr) return input_error("no task recognises " + model.string());
  runner.task_ = std::move(*task);
  runner.preprocessor_ = std::make_unique<inference::Preprocessor>(runner.task_->input());
  const auto& specs = runner.session_.description().inputs;
  runner.inputs_.resize(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto& dims = runner.task_->input_dims()[i];
    const auto bytes = static_cast<std::size_t>(element_count(dims)) * size_of(specs[i].type);
    runner.inputs_[i].resize(bytes);
    auto bound = runner.session_.bind_input(i, runner.inputs_[i].data(), bytes, specs[i].type, dims);
    if (!bound) return forward_error(bound);
  }
  return runner;
}

Result<const FrameFindings*> ModelRunner::find(const cv::Mat& picture) {
  const auto transform = preprocessor_->run(picture.data, picture.cols, picture.rows, picture.step,
                                            inputs_[task_->input().input_index].data());
  if (auto ran = session_.run(); !ran) return forward_error(ran);
  if (auto got = session_.outputs(outputs_); !got) return forward_error(got);
  findings_.clear();
  task_->decode(outputs_, transform, findings_);
  return &findings_;
}

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

class RealModel : public testing::Test {
 protected:
  // Skips the test if the model or the picture is absent.
  void open(const std::optional<fs::path>& model, const std::string& model_name,
            const inference::TaskOptions& options = {}) {
    if (!model) GTEST_SKIP() << absent_message(model_name);
    if (!fs::exists(plugin_path())) GTEST_SKIP() << absent_message("the ONNX Runtime plug-in");
    auto opened = ModelRunner::open(*model, options);
    ASSERT_TRUE(opened) << opened.error().sentence();
    runner_ = std::make_unique<ModelRunner>(std::move(*opened));
  }
  void open_npm(const std::string& name, const inference::TaskOptions& options = {}) {
    open(dependency_file("models/" + name), name, options);
  }
  void open_shared(const std::string& name, const inference::TaskOptions& options = {}) {
    open(shared_data("models/" + name), name, options);
  }
  const FrameFindings& find(const cv::Mat& picture) {
    static const FrameFindings kNothing;
    auto found = runner_->find(picture);
    if (found) return **found;
    ADD_FAILURE() << found.error().sentence();
    return kNothing;
  }
  std::string task_name() { return std::string(runner_->task().name()); }
  // The best IoU with the box, among the detections of the class with at least this score.
  static float best_iou(const FrameFindings& findings, const Box& box, std::int32_t class_id = 0,
                        float score = 0.4F) {
    float best = 0;
    for (const Detection& found : findings.detections)
      if (found.class_id == class_id && found.score >= score) best = std::max(best, iou(found, box));
    return best;
  }
  std::unique_ptr<ModelRunner> runner_;
};

cv::Mat picture(const std::optional<fs::path>& path) { return path ? cv::imread(*path) : cv::Mat(); }
cv::Mat first_frame(const std::optional<fs::path>& path) {
  cv::Mat frame;
  if (!path) return frame;
  cv::VideoCapture video(path->string());
  video.read(frame);
  return frame;
}

#define OPEN_OR_SKIP(call) \
  call;                    \
  if (IsSkipped() || HasFatalFailure()) return
#define PICTURE_OR_SKIP(name, picture_) \
  const cv::Mat name = picture_;        \
  if (name.empty()) GTEST_SKIP() << absent_message("a picture of opencv-doc or of the shared data")

TEST_F(RealModel, BlazeFaceBackFindsTheFace) {
  OPEN_OR_SKIP(open_npm("face_detection_back_256x256_barracuda.onnx"));
  PICTURE_OR_SKIP(messi, picture(opencv_example(kMessi)));
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
  OPEN_OR_SKIP(open_npm("face_detection_front_128x128_barracuda.onnx"));
  PICTURE_OR_SKIP(messi, picture(opencv_example(kMessi)));
  const cv::Rect close_up(180, 60, 120, 110);
  const FrameFindings& findings = find(messi(close_up));
  ASSERT_FALSE(findings.detections.empty());
  EXPECT_GT(iou(findings.detections[0], {221 - 180, 96 - 60, 259 - 180, 134 - 60}), 0.7F);
}

TEST_F(RealModel, YuNetFindsFaces) {
  for (const char* name : {"yunet_n_320_320.onnx", "yunet_n_dynamic.onnx"}) {
    OPEN_OR_SKIP(open_shared(name));
    EXPECT_EQ(task_name(), "yunet");
    PICTURE_OR_SKIP(messi, picture(opencv_example(kMessi)));
    EXPECT_GT(best_iou(find(messi), kMessiFace), 0.6F) << name;
    EXPECT_EQ(find(messi).detections.at(0).landmark_count, 5);
    const auto humans = shared_data("media/humans_4.jpg");
    if (!humans) GTEST_SKIP() << absent_message("humans_4.jpg");
    const FrameFindings& people = find(picture(humans));
    EXPECT_GT(best_iou(people, {852, 58, 878, 92}), 0.5F) << name;   // the man
    EXPECT_GT(best_iou(people, {93, 217, 117, 247}), 0.5F) << name;  // the boy in red
  }
}

TEST_F(RealModel, UltraFaceFindsFaces) {
  OPEN_OR_SKIP(open_shared("ultraface_rfb_320.onnx"));
  EXPECT_EQ(task_name(), "ultraface");
  PICTURE_OR_SKIP(messi, picture(opencv_example(kMessi)));
  ASSERT_EQ(find(messi).detections.size(), 1U);
  EXPECT_GT(best_iou(find(messi), kMessiFace), 0.6F);
  const auto humans = shared_data("media/humans_4.jpg");
  if (!humans) GTEST_SKIP() << absent_message("humans_4.jpg");
  EXPECT_GT(best_iou(find(picture(humans)), {852, 58, 878, 92}), 0.7F);
}

TEST_F(RealModel, DbTextBoxesTheWordsOfTheSign) {
  OPEN_OR_SKIP(open_npm("ch_PP-OCRv4_det_infer.onnx"));
  EXPECT_EQ(task_name(), "db_text");
  PICTURE_OR_SKIP(sign, picture(opencv_example(kSceneText)));
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
    OPEN_OR_SKIP(open_npm(name));
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
  PICTURE_OR_SKIP(frame, first_frame(opencv_example(kPedestrianVideo)));
  // Three pedestrians and a van, measured in the frame.
  const Box people[] = {{640, 240, 684, 323}, {253, 220, 283, 308}, {500, 157, 530, 233}};
  for (const int side : {416, 640, 1280}) {
    const std::string name = "yolox_nano_" + std::to_string(side) + "x" + std::to_string(side) + ".onnx";
    OPEN_OR_SKIP(open_shared(name));
    EXPECT_EQ(task_name(), "yolox");
    const FrameFindings& findings = find(frame);
    for (const Box& person : people) EXPECT_GT(best_iou(findings, person, 0, 0.7F), 0.8F) << name;
    EXPECT_GT(best_iou(findings, {650, 43, 725, 100}, 7, 0.7F), 0.85F) << name;  // truck
    EXPECT_EQ(runner_->task().class_names().at(0), "person");
  }
}

TEST_F(RealModel, FastestDetFindsThePlayer) {
  OPEN_OR_SKIP(open_shared("FastestDet.onnx"));
  EXPECT_EQ(task_name(), "fastestdet");
  PICTURE_OR_SKIP(messi, picture(opencv_example(kMessi)));
  EXPECT_GT(best_iou(find(messi), {70, 47, 455, 335}, 0, 0.8F), 0.5F);
  EXPECT_GT(best_iou(find(messi), {338, 288, 390, 334}, 32, 0.7F), 0.7F);  // the ball
}

// Points of the player, and of the grass and the crowd, in the photo.
TEST_F(RealModel, MasksCoverThePlayer) {
  PICTURE_OR_SKIP(messi, picture(opencv_example(kMessi)));
  for (const char* name : {"selfie_segmentation_landscape.onnx", "bodypix_mbv1_050_s16.onnx"}) {
    OPEN_OR_SKIP(open_shared(name));
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
  const auto model = shared_data("models/silero_vad.onnx");
  if (!model) GTEST_SKIP() << absent_message("silero_vad.onnx");
  if (!fs::exists(plugin_path())) GTEST_SKIP() << absent_message("the ONNX Runtime plug-in");
  const auto opened = ModelRunner::open(*model, {});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().what, testing::HasSubstr("no task recognises"));
}

}  // namespace
}  // namespace headroom::test
