// Ultra-Light-Fast-Generic-Face-Detector (UltraFace): scores [1, N, 2] (background, face) after softmax,
// and boxes [1, N, 4] as corners in fractions of the picture. Input: RGB, (value − 127) / 128, stretched.
#include "inference/tasks/detections.h"

namespace headroom::inference {

TaskResult make_ultraface(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds = "an image as input, and outputs [1,N,2] (scores) and [1,N,4] (boxes)";
  auto image = find_image_input(model, options.image_size, 32);
  if (!image || image->spec.channels != ChannelOrder::rgb || model.outputs.size() != 2)
    return does_not_fit("ultraface", kNeeds);
  const std::size_t scores = fits(model.outputs[0].dims, {1, -1, 2}) ? 0 : 1;
  const TensorSpec& score_spec = model.outputs[scores];
  const TensorSpec& box_spec = model.outputs[1 - scores];
  if (!is_float(score_spec) || !is_float(box_spec) || !fits(score_spec.dims, {1, -1, 2}) ||
      !fits(box_spec.dims, {1, score_spec.dims[1], 4}) ||
      (options.forced.empty() && (score_spec.dims[2] != 2 || box_spec.dims[2] != 4)))
    return does_not_fit("ultraface", kNeeds);
  image->spec.resize = Resize::stretch;
  normalise(image->spec, {127, 127, 127}, {1.0F / 128, 1.0F / 128, 1.0F / 128});
  const auto add_boxes = [scores, input = image->spec](std::span<const TensorView> outputs,
                                                       DetectionCollector& boxes) {
    const float* values = float_data(outputs, scores, 2);
    if (values == nullptr || outputs[scores].rank != 3 || outputs[scores].dim(2) != 2) return;
    const std::int64_t anchors = outputs[scores].dim(1);
    const float* corners = float_data(outputs, 1 - scores, anchors * 4);
    if (corners == nullptr) return;
    const auto width = static_cast<float>(input.width);
    const auto height = static_cast<float>(input.height);
    for (std::int64_t i = 0; i < anchors; ++i) {
      const float score = values[2 * i + 1];
      if (!(score > boxes.confidence())) continue;
      const float* box = corners + 4 * i;
      boxes.add({box[0] * width, box[1] * height, box[2] * width, box[3] * height, score, 0,
                 static_cast<std::uint32_t>(i)});
    }
  };
  return make_box_task("ultraface", *image, {"face"}, options, score_spec.dims[1], add_boxes);
}

}  // namespace headroom::inference
