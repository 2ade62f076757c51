// FastestDet: [1, 5 + classes, H/16, W/16], with planes of objectness, four box values, and class
// probabilities. Score = objectness^0.6 · class^0.4; centre = (tanh(output) + cell) · 16; width and height
// = sigmoid(output), as fractions of the picture. Input: BGR/255, stretched.
#include <cmath>

#include "inference/tasks/detections.h"

namespace headroom::inference {
namespace {

constexpr int kStride = 16;

// `value` points to the cell's first value; the next value of the cell is `cells` elements further.
void add_cell(const float* value, std::int64_t cells, std::int64_t classes, std::int64_t i,
              const InputSpec& input, DetectionCollector& boxes) {
  const float objectness = std::pow(value[0], 0.6F);
  if (!(objectness > boxes.confidence())) return;  // the class factor is at most 1
  BestClass best{0, 0};
  for (std::int64_t c = 0; c < classes; ++c)
    if (value[(5 + c) * cells] > best.score) best = {static_cast<std::int32_t>(c), value[(5 + c) * cells]};
  const float score = objectness * std::pow(best.score, 0.4F);
  if (!(score > boxes.confidence())) return;
  const std::int64_t columns = input.width / kStride;
  const float x = (std::tanh(value[cells]) + static_cast<float>(i % columns)) * kStride;
  const float y = (std::tanh(value[2 * cells]) + static_cast<float>(i / columns)) * kStride;
  boxes.add(from_centre(x, y, sigmoid(value[3 * cells]) * static_cast<float>(input.width),
                        sigmoid(value[4 * cells]) * static_cast<float>(input.height), score, best.id,
                        static_cast<std::uint32_t>(i)));
}

}  // namespace

TaskResult make_fastestdet(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds = "an image as input, and one output [1,5+classes,H/16,W/16] of float32";
  auto image = find_image_input(model, options.image_size, 32);
  if (!image || image->spec.channels != ChannelOrder::rgb) return does_not_fit("fastestdet", kNeeds);
  InputSpec& spec = image->spec;
  const std::int64_t rows = spec.height / kStride, columns = spec.width / kStride;
  const TensorSpec* output = only_output(model, {1, -1, rows, columns});
  if (output == nullptr || spec.width % kStride != 0 || spec.height % kStride != 0 ||
      (output->dims[1] >= 0 && output->dims[1] < 6) ||
      (options.forced.empty() && (!output->is_static() || spec.layout != Layout::nchw)))
    return does_not_fit("fastestdet", kNeeds);
  spec.channels = ChannelOrder::bgr;
  spec.resize = Resize::stretch;
  const auto add_boxes = [spec, rows, columns](std::span<const TensorView> outputs,
                                               DetectionCollector& boxes) {
    const float* planes = float_data(outputs, 0, 1);
    if (planes == nullptr || outputs[0].rank != 4 || outputs[0].dim(1) < 6 || outputs[0].dim(2) != rows ||
        outputs[0].dim(3) != columns)
      return;
    const std::int64_t cells = rows * columns;
    for (std::int64_t i = 0; i < cells; ++i)
      add_cell(planes + i, cells, outputs[0].dim(1) - 5, i, spec, boxes);
  };
  return make_box_task("fastestdet", *image, class_names_of(model, output->dims[1] - 5), options,
                       rows * columns, add_boxes);
}

}  // namespace headroom::inference
