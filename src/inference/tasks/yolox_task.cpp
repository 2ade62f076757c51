// YOLOX: [1, N, 5 + classes], one anchor per cell of strides 8, 16, 32. The exports leave the decoding to
// the host: centre = (output + cell) · stride, size = exp(output) · stride; objectness and classes are
// after sigmoid. Input as in YOLOX 0.2: BGR 0..255 without scaling, letterboxed to the top left with 114.
#include <array>
#include <cmath>

#include "inference/tasks/task_list.h"
#include "inference/tasks/yolo_head.h"

namespace headroom::inference {
namespace {

constexpr std::array kStrides{8, 16, 32};

class YoloX final : public TaskBase {
 public:
  YoloX(const ModelDescription& model, const TaskOptions& options, const ImageInput& image,
        std::int64_t anchors)
      : TaskBase("yolox", image.spec, image.dims, class_names_of(model, model.outputs[0].dims[2] - 5)),
        anchors_(anchors),
        collector_(options, anchors) {}

  void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
              FrameFindings& findings) override {
    const float* row = float_data(outputs, 0, 1);
    if (row == nullptr || outputs[0].rank != 3 || outputs[0].dim(1) != anchors_ || outputs[0].dim(2) < 6)
      return;
    const std::int64_t columns = outputs[0].dim(2);
    collector_.start();
    std::uint32_t anchor = 0;
    for (const int stride : kStrides)
      for (int y = 0; y < input().height / stride; ++y)
        for (int x = 0; x < input().width / stride; ++x, row += columns, ++anchor)
          if (row[4] > collector_.confidence()) add(row, columns, x, y, stride, anchor);
    collector_.finish(FrameMapping(transform), findings);
  }

 private:
  void add(const float* row, std::int64_t columns, int x, int y, int stride, std::uint32_t anchor) {
    const BestClass best = best_class(row + 5, columns - 5, row[4]);
    if (!(best.score > collector_.confidence())) return;
    const auto step = static_cast<float>(stride);
    collector_.add(from_centre((row[0] + static_cast<float>(x)) * step,
                               (row[1] + static_cast<float>(y)) * step, std::exp(row[2]) * step,
                               std::exp(row[3]) * step, best.score, best.id, anchor));
  }

  std::int64_t anchors_;
  DetectionCollector collector_;
};

}  // namespace

TaskResult make_yolox(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds =
      "one image as input, and one output [1,N,5+classes] of float32, with N equal to the number of cells "
      "of strides 8, 16 and 32";
  auto image = find_image_input(model, options.image_size, 32);
  if (!image || image->spec.channels == ChannelOrder::rgba || model.outputs.size() != 1)
    return does_not_fit("yolox", kNeeds);
  InputSpec& spec = image->spec;
  const std::int64_t anchors = grid_cells(spec.width, spec.height, {8, 16, 32});
  const TensorSpec& output = model.outputs[0];
  if (!is_float(output) || !fits(output.dims, {1, anchors, -1}) ||
      (output.dims[2] >= 0 && output.dims[2] < 6))
    return does_not_fit("yolox", kNeeds);
  if (options.forced.empty() && (output.dims[1] < 0 || output.dims[2] < 6))
    return does_not_fit("yolox", kNeeds);
  if (spec.channels == ChannelOrder::rgb) spec.channels = ChannelOrder::bgr;
  spec.resize = Resize::letterbox_top_left;
  spec.scale = {1, 1, 1};
  return std::make_unique<YoloX>(model, options, *image, anchors);
}

}  // namespace headroom::inference
