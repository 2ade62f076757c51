// YOLOv8 and YOLO11: [1, 4 + classes, N], with boxes as centre and size in input pixels, and scores after
// sigmoid.
#include "inference/tasks/detections.h"

namespace headroom::inference {

TaskResult make_yolov8(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds = "one image as input, and one output [1,4+classes,N] of float32";
  const auto image = find_yolo_input(model, options.image_size);
  const TensorSpec* output = only_output(model, {1, -1, -1});
  if (!image || output == nullptr) return does_not_fit("yolov8", kNeeds);
  const std::int64_t rows = output->dims[1];
  if (rows >= 0 && rows < 5) return does_not_fit("yolov8", kNeeds);
  const std::int64_t anchors = grid_cells(image->spec.width, image->spec.height, {8, 16, 32});
  if (options.forced.empty()) {
    if (!may_be_ultralytics(model, "detect")) return does_not_fit("yolov8", "a detection export");
    const bool declares_task = model.metadata_value("task") == "detect";
    if (!declares_task && (rows < 5 || output->dims[2] != anchors || rows >= anchors))
      return does_not_fit("yolov8", "N equal to the number of cells of strides 8, 16 and 32");
  }
  const auto add_boxes = [](std::span<const TensorView> outputs, DetectionCollector& boxes) {
    const float* values = float_data(outputs, 0, 1);
    if (values == nullptr || outputs[0].rank != 3 || outputs[0].dim(1) < 5) return;
    add_v8_candidates(values, outputs[0].dim(2), outputs[0].dim(1) - 4, boxes);
  };
  return make_box_task("yolov8", *image, class_names_of(model, rows - 4), options, anchors, add_boxes);
}

}  // namespace headroom::inference
