// YOLOv5: [1, N, 5 + classes], with centre and size in input pixels, objectness and class scores, all
// after sigmoid. Three anchors per cell, so N is 25,200 at 640×640. The decoder reads each row's
// objectness first: 95 to 99 % of the rows end there, after one of their six cache lines. YOLOv5 maps boxes
// back with exactly half the padding.
#include "inference/tasks/detections.h"

namespace headroom::inference {
namespace {

void add_yolov5_boxes(std::span<const TensorView> outputs, DetectionCollector& boxes) {
  const float* rows = float_data(outputs, 0, 1);
  if (rows == nullptr || outputs[0].rank != 3 || outputs[0].dim(2) < 6) return;
  const std::int64_t columns = outputs[0].dim(2);
  for (std::int64_t i = 0; i < outputs[0].dim(1); ++i) {
    const float* row = rows + i * columns;
    if (!(row[4] > boxes.confidence())) continue;
    const BestClass best = best_class(row + 5, columns - 5, row[4]);
    if (best.score > boxes.confidence())
      boxes.add(
          from_centre(row[0], row[1], row[2], row[3], best.score, best.id, static_cast<std::uint32_t>(i)));
  }
}

}  // namespace

TaskResult make_yolov5(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds = "one image as input, and a first output [1,N,5+classes] of float32";
  const auto image = find_yolo_input(model, options.image_size);
  if (!image || model.outputs.empty()) return does_not_fit("yolov5", kNeeds);
  const TensorSpec& output = model.outputs[0];
  if (!is_float(output) || !fits(output.dims, {1, -1, -1})) return does_not_fit("yolov5", kNeeds);
  const std::int64_t columns = output.dims[2];
  if (columns >= 0 && columns < 6) return does_not_fit("yolov5", kNeeds);
  const InputSpec& spec = image->spec;
  const std::int64_t anchors = 3 * grid_cells(spec.width, spec.height, {8, 16, 32});
  if (options.forced.empty()) {
    // YOLOv5's exporter writes "stride" and no "task".
    const bool declares_yolov5 =
        !model.metadata_value("stride").empty() && model.metadata_value("task").empty();
    const std::int64_t n = output.dims[1];
    const bool four_grids = n == 3 * grid_cells(spec.width, spec.height, {8, 16, 32, 64});
    if (columns < 6 || model.outputs.size() != 1 || (n >= 0 ? n != anchors && !four_grids : !declares_yolov5))
      return does_not_fit("yolov5", "N equal to three anchors per cell of strides 8, 16 and 32");
  }
  return make_box_task("yolov5", *image, class_names_of(model, columns - 5), options, anchors,
                       add_yolov5_boxes, true);
}

}  // namespace headroom::inference
