// FastestDet: [1, 5 + classes, H/16, W/16], with planes of objectness, four box values, and class
// probabilities. Score = objectness^0.6 · class^0.4; centre = (tanh(output) + cell) · 16; width and height
// = sigmoid(output), as fractions of the picture. Input: BGR/255, stretched.
#include <cmath>

#include "inference/tasks/detections.h"
#include "inference/tasks/task_list.h"

namespace headroom::inference {
namespace {

constexpr int kStride = 16;

class FastestDet final : public TaskBase {
 public:
  FastestDet(const ModelDescription& model, const TaskOptions& options, const ImageInput& image)
      : TaskBase("fastestdet", image.spec, image.dims, class_names_of(model, model.outputs[0].dims[1] - 5)),
        collector_(options, grid_cells(image.spec.width, image.spec.height, {kStride})) {}

  void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
              FrameFindings& findings) override {
    const std::int64_t rows = input().height / kStride;
    const std::int64_t columns = input().width / kStride;
    const float* planes = float_data(outputs, 0, 1);
    if (planes == nullptr || outputs[0].rank != 4 || outputs[0].dim(1) < 6 || outputs[0].dim(2) != rows ||
        outputs[0].dim(3) != columns)
      return;
    const std::int64_t cells = rows * columns;
    const std::int64_t classes = outputs[0].dim(1) - 5;
    collector_.start();
    for (std::int64_t i = 0; i < cells; ++i) add(planes + i, cells, classes, i);
    collector_.finish(FrameMapping(transform), findings);
  }

 private:
  // `value` points to the cell's first value; the next value of the cell is `cells` elements further.
  void add(const float* value, std::int64_t cells, std::int64_t classes, std::int64_t i) {
    const float confidence = collector_.confidence();
    const float objectness = std::pow(value[0], 0.6F);
    if (!(objectness > confidence)) return;  // the class factor is at most 1
    BestClass best{0, 0};
    for (std::int64_t c = 0; c < classes; ++c)
      if (value[(5 + c) * cells] > best.score) best = {static_cast<std::int32_t>(c), value[(5 + c) * cells]};
    const float score = objectness * std::pow(best.score, 0.4F);
    if (!(score > confidence)) return;
    const auto width = static_cast<float>(input().width);
    const auto height = static_cast<float>(input().height);
    const std::int64_t columns = input().width / kStride;
    const float x = (std::tanh(value[cells]) + static_cast<float>(i % columns)) * kStride;
    const float y = (std::tanh(value[2 * cells]) + static_cast<float>(i / columns)) * kStride;
    collector_.add(from_centre(x, y, sigmoid(value[3 * cells]) * width, sigmoid(value[4 * cells]) * height,
                               score, best.id, static_cast<std::uint32_t>(i)));
  }

  DetectionCollector collector_;
};

}  // namespace

TaskResult make_fastestdet(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds = "an image as input, and one output [1,5+classes,H/16,W/16] of float32";
  auto image = find_image_input(model, options.image_size, 32);
  if (!image || image->spec.channels != ChannelOrder::rgb || model.outputs.size() != 1)
    return does_not_fit("fastestdet", kNeeds);
  InputSpec& spec = image->spec;
  const TensorSpec& output = model.outputs[0];
  if (!is_float(output) || spec.width % kStride != 0 || spec.height % kStride != 0 ||
      !fits(output.dims, {1, -1, spec.height / kStride, spec.width / kStride}) ||
      (output.dims[1] >= 0 && output.dims[1] < 6))
    return does_not_fit("fastestdet", kNeeds);
  if (options.forced.empty() && (!output.is_static() || spec.layout != Layout::nchw))
    return does_not_fit("fastestdet", kNeeds);
  spec.channels = ChannelOrder::bgr;
  spec.resize = Resize::stretch;
  return std::make_unique<FastestDet>(model, options, *image);
}

}  // namespace headroom::inference
