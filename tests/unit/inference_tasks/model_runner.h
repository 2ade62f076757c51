// Runs a real model on a picture, with the same steps as a worker: backend, task, pre-processing,
// decoding.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "inference/backend.h"
#include "inference/preprocessor.h"
#include "inference/task.h"

namespace headroom::test {

// The folder of pictures and a video from Debian's package opencv-doc.
inline constexpr const char* kMessi = "data/messi5.jpg";
inline constexpr const char* kSceneText = "text/scenetext01.jpg";
inline constexpr const char* kPedestrianVideo = "data/vtest.avi";

// The plug-in of this build.
std::filesystem::path plugin_path();

class ModelRunner {
 public:
  // The error names what is missing: plug-in, runtime or model.
  static Result<ModelRunner> open(const std::filesystem::path& model, const inference::TaskOptions& options);

  inference::Task& task() { return *task_; }
  // Pre-processes a picture (8-bit BGR), runs the model and decodes. The reference is valid until the next
  // call.
  Result<const FrameFindings*> find(const cv::Mat& picture);
  const std::vector<TensorView>& outputs() const { return outputs_; }
  const inference::FrameTransform& transform() const { return transform_; }

 private:
  explicit ModelRunner(inference::Session session) : session_(std::move(session)) {}
  inference::Session session_;
  std::unique_ptr<inference::Task> task_;
  std::unique_ptr<inference::Preprocessor> preprocessor_;
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<TensorView> outputs_;
  inference::FrameTransform transform_;
  FrameFindings findings_;
};

// Intersection over union of a detection and the box [left, top, right, bottom].
float iou(const Detection& detection, const std::array<float, 4>& box);

}  // namespace headroom::test
