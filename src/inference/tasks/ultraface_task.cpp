// Ultra-Light-Fast-Generic-Face-Detector (UltraFace): scores [1, N, 2] (background, face) after softmax,
// and boxes [1, N, 4] as corners in fractions of the picture. Input: RGB, (value − 127) / 128, stretched.
#include "inference/tasks/detections.h"
#include "inference/tasks/task_list.h"

namespace headroom::inference {
namespace {

class UltraFace final : public TaskBase {
 public:
  UltraFace(const TaskOptions& options, const ImageInput& image, std::size_t scores, std::size_t boxes,
            std::int64_t anchors)
      : TaskBase("ultraface", image.spec, image.dims, {"face"}),
        scores_(scores),
        boxes_(boxes),
        collector_(options, anchors) {}

  void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
              FrameFindings& findings) override {
    const float* scores = float_data(outputs, scores_, 2);
    if (scores == nullptr || outputs[scores_].rank != 3 || outputs[scores_].dim(2) != 2) return;
    const std::int64_t anchors = outputs[scores_].dim(1);
    const float* boxes = float_data(outputs, boxes_, anchors * 4);
    if (boxes == nullptr) return;
    const auto width = static_cast<float>(input().width);
    const auto height = static_cast<float>(input().height);
    collector_.start();
    for (std::int64_t i = 0; i < anchors; ++i) {
      const float score = scores[2 * i + 1];
      if (!(score > collector_.confidence())) continue;
      const float* box = boxes + 4 * i;
      collector_.add({box[0] * width, box[1] * height, box[2] * width, box[3] * height, score, 0,
                      static_cast<std::uint32_t>(i)});
    }
    collector_.finish(FrameMapping(transform), findings);
  }

 private:
  std::size_t scores_, boxes_;
  DetectionCollector collector_;
};

}  // namespace

TaskResult make_ultraface(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds = "an image as input, and outputs [1,N,2] (scores) and [1,N,4] (boxes)";
  auto image = find_image_input(model, options.image_size, 32);
  if (!image || image->spec.channels != ChannelOrder::rgb || model.outputs.size() != 2)
    return does_not_fit("ultraface", kNeeds);
  const std::size_t scores = fits(model.outputs[0].dims, {1, -1, 2}) ? 0 : 1;
  const TensorSpec& score_spec = model.outputs[scores];
  const TensorSpec& box_spec = model.outputs[1 - scores];
  if (!is_float(score_spec) || !is_float(box_spec) || !fits(score_spec.dims, {1, -1, 2}) ||
      !fits(box_spec.dims, {1, score_spec.dims[1], 4}))
    return does_not_fit("ultraface", kNeeds);
  if (options.forced.empty() && (score_spec.dims[2] != 2 || box_spec.dims[2] != 4))
    return does_not_fit("ultraface", kNeeds);
  image->spec.resize = Resize::stretch;
  normalise(image->spec, {127, 127, 127}, {1.0F / 128, 1.0F / 128, 1.0F / 128});
  return std::make_unique<UltraFace>(options, *image, scores, 1 - scores, score_spec.dims[1]);
}

}  // namespace headroom::inference
