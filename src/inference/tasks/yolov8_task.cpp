// YOLOv8 and YOLO11: [1, 4 + classes, N], with boxes as centre and size in input pixels, and scores after
// sigmoid.
#include "inference/tasks/task_list.h"
#include "inference/tasks/yolo_head.h"

namespace headroom::inference {
namespace {

class YoloV8 final : public TaskBase {
 public:
  YoloV8(const ModelDescription& model, const TaskOptions& options, const ImageInput& image,
         std::int64_t anchors)
      : TaskBase("yolov8", image.spec, image.dims, class_names_of(model, model.outputs[0].dims[1] - 4)),
        collector_(options, anchors) {}

  void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
              FrameFindings& findings) override {
    const float* rows = float_data(outputs, 0, 1);
    if (rows == nullptr || outputs[0].rank != 3 || outputs[0].dim(1) < 5) return;
    collector_.start();
    add_v8_candidates(rows, outputs[0].dim(2), outputs[0].dim(1) - 4, collector_);
    collector_.finish(FrameMapping(transform), findings);
  }

 private:
  DetectionCollector collector_;
};

}  // namespace

TaskResult make_yolov8(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds = "one image as input, and one output [1,4+classes,N] of float32";
  const auto image = find_yolo_input(model, options.image_size);
  if (!image || model.outputs.size() != 1) return does_not_fit("yolov8", kNeeds);
  const TensorSpec& output = model.outputs[0];
  if (!is_float(output) || !fits(output.dims, {1, -1, -1})) return does_not_fit("yolov8", kNeeds);
  const std::int64_t rows = output.dims[1];
  if (rows >= 0 && rows < 5) return does_not_fit("yolov8", kNeeds);
  const std::int64_t anchors = grid_cells(image->spec.width, image->spec.height, {8, 16, 32});
  if (options.forced.empty()) {
    if (!may_be_ultralytics(model, "detect")) return does_not_fit("yolov8", "a detection export");
    const bool declares_task = model.metadata_value("task") == "detect";
    if (!declares_task && (rows < 5 || output.dims[2] != anchors || rows >= anchors))
      return does_not_fit("yolov8", "N equal to the number of cells of strides 8, 16 and 32");
  }
  return std::make_unique<YoloV8>(model, options, *image, anchors);
}

}  // namespace headroom::inference
