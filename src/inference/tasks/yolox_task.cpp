// YOLOX: [1, N, 5 + classes], one anchor per cell of strides 8, 16, 32. The exports leave the decoding to
// the host: centre = (output + cell) · stride, size = exp(output) · stride; objectness and classes are
// after sigmoid. Input as in YOLOX 0.2: BGR 0..255 without scaling, letterboxed to the top left with 114.
#include <cmath>

#include "inference/tasks/detections.h"

namespace headroom::inference {
namespace {

void add_yolox_boxes(std::span<const TensorView> outputs, const InputSpec& input, DetectionCollector& boxes) {
  const std::int64_t anchors = grid_cells(input.width, input.height, {8, 16, 32});
  const float* row = float_data(outputs, 0, 1);
  if (row == nullptr || outputs[0].rank != 3 || outputs[0].dim(1) != anchors || outputs[0].dim(2) < 6) return;
  const std::int64_t columns = outputs[0].dim(2);
  std::uint32_t anchor = 0;
  for (const int stride : {8, 16, 32})
    for (int y = 0; y < input.height / stride; ++y)
      for (int x = 0; x < input.width / stride; ++x, row += columns, ++anchor) {
        if (!(row[4] > boxes.confidence())) continue;
        const BestClass best = best_class(row + 5, columns - 5, row[4]);
        if (!(best.score > boxes.confidence())) continue;
        const auto step = static_cast<float>(stride);
        boxes.add(from_centre((row[0] + static_cast<float>(x)) * step,
                              (row[1] + static_cast<float>(y)) * step, std::exp(row[2]) * step,
                              std::exp(row[3]) * step, best.score, best.id, anchor));
      }
}

}  // namespace

TaskResult make_yolox(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds =
      "one image as input, and one output [1,N,5+classes] of float32, with N equal to the number of cells "
      "of strides 8, 16 and 32";
  auto image = find_image_input(model, options.image_size, 32);
  if (!image || image->spec.channels == ChannelOrder::rgba) return does_not_fit("yolox", kNeeds);
  InputSpec& spec = image->spec;
  const std::int64_t anchors = grid_cells(spec.width, spec.height, {8, 16, 32});
  const TensorSpec* output = only_output(model, {1, anchors, -1});
  if (output == nullptr || (output->dims[2] >= 0 && output->dims[2] < 6) ||
      (options.forced.empty() && (output->dims[1] < 0 || output->dims[2] < 6)))
    return does_not_fit("yolox", kNeeds);
  if (spec.channels == ChannelOrder::rgb) spec.channels = ChannelOrder::bgr;
  spec.resize = Resize::letterbox_top_left;
  spec.scale = {1, 1, 1};
  return make_box_task("yolox", *image, class_names_of(model, output->dims[2] - 5), options, anchors,
                       [spec](std::span<const TensorView> outputs, DetectionCollector& boxes) {
                         add_yolox_boxes(outputs, spec, boxes);
                       });
}

}  // namespace headroom::inference
