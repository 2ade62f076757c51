// Classification: [1, classes]. The finding is one detection that covers the frame and has the most likely
// class. The task is recognised only by ultralytics' metadata, because a vector of N numbers could also be
// an embedding.
#include <algorithm>
#include <cmath>

#include "inference/tasks/detections.h"

namespace headroom::inference {
namespace {

class Classification final : public TaskBase {
 public:
  Classification(const ModelDescription& model, const TaskOptions& options, const ImageInput& image)
      : TaskBase("classification", image, class_names_of(model, model.outputs[0].dims.back())),
        confidence_(options.confidence) {}

  void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
              FrameFindings& findings) override {
    const float* scores = float_data(outputs, 0, 1);
    if (scores == nullptr) return;
    const std::int64_t classes = outputs[0].count();
    for (std::int64_t i = 0; i < classes; ++i)
      if (!std::isfinite(scores[i])) return;
    const auto best = std::max_element(scores, scores + classes);
    Detection whole;
    whole.right = static_cast<float>(transform.frame_width);
    whole.bottom = static_cast<float>(transform.frame_height);
    whole.class_id = static_cast<std::int32_t>(best - scores);
    whole.score = probability(scores, classes, *best);
    if (whole.score > confidence_) findings.detections.push_back(whole);
  }

 private:
  // The probability of the best class: its score if the scores are probabilities (they sum to one), else
  // its softmax.
  static float probability(const float* scores, std::int64_t classes, float best) {
    double sum = 0, exponentials = 0;
    bool negative = false;
    for (std::int64_t i = 0; i < classes; ++i) {
      sum += static_cast<double>(scores[i]);
      exponentials += std::exp(static_cast<double>(scores[i] - best));
      negative = negative || scores[i] < 0;
    }
    if (!negative && std::abs(sum - 1) < 1e-2) return best;
    return static_cast<float>(1 / exponentials);
  }

  float confidence_;
};

}  // namespace

TaskResult make_classification(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds = "one image as input, and one output [1,classes] of float32";
  auto image = find_image_input(model, options.image_size, 32);
  if (!image || image->spec.channels == ChannelOrder::rgba || only_output(model, {1, -1}) == nullptr)
    return does_not_fit("classification", kNeeds);
  if (options.forced.empty() && model.metadata_value("task") != "classify")
    return does_not_fit("classification", "an export with the metadata task=classify");
  image->spec.resize = Resize::stretch;
  return std::make_unique<Classification>(model, options, *image);
}

}  // namespace headroom::inference
