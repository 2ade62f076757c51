// End-to-end YOLO exports (YOLOv10, or exported with nms=True): [1, 300, 6], rows of left, top, right,
// bottom in input pixels, score, class. The model itself suppresses overlaps, so only the confidence
// threshold applies.
#include "inference/tasks/detections.h"

namespace headroom::inference {
namespace {

constexpr std::int64_t kMostRows = 1000;
constexpr float kHighestClass = 100000;

class YoloEnd2End final : public TaskBase {
 public:
  YoloEnd2End(const ModelDescription& model, const TaskOptions& options, const ImageInput& image)
      : TaskBase("yolo_end2end", image, names_of(model)), confidence_(options.confidence) {}

  void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
              FrameFindings& findings) override {
    const float* rows = float_data(outputs, 0, 1);
    if (rows == nullptr || outputs[0].rank != 3 || outputs[0].dim(2) != 6) return;
    const FrameMapping to_frame(transform);
    findings.detections.reserve(static_cast<std::size_t>(std::min(outputs[0].dim(1), kMostRows)));
    for (std::int64_t i = 0; i < outputs[0].dim(1); ++i) {
      const float* row = rows + i * 6;
      if (!(row[4] > confidence_) || !(row[5] >= 0 && row[5] < kHighestClass)) continue;
      const Candidate box{row[0], row[1], row[2], row[3], row[4], static_cast<std::int32_t>(row[5]), 0};
      if (is_finite(box)) findings.detections.push_back(to_detection(box, to_frame));
    }
  }

 private:
  // The output does not show the number of classes. Without metadata "names", the classes are assumed to
  // be COCO's.
  static std::vector<std::string> names_of(const ModelDescription& model) {
    if (model.metadata_value("names").empty()) return class_names_of(model, 80);
    return class_names_of(model, -1);
  }

  float confidence_;
};

}  // namespace

TaskResult make_yolo_end2end(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds = "one image as input, and one output [1,N,6] of float32";
  const auto image = find_yolo_input(model, options.image_size);
  const TensorSpec* output = only_output(model, {1, -1, 6});
  if (!image || output == nullptr) return does_not_fit("yolo_end2end", kNeeds);
  if (options.forced.empty()) {
    const std::int64_t rows = output->dims[1];
    const bool declares_task = model.metadata_value("task") == "detect";
    if (!may_be_ultralytics(model, "detect") || output->dims[2] != 6 ||
        (rows >= 0 ? rows > kMostRows : !declares_task))
      return does_not_fit("yolo_end2end", "at most 1,000 rows");
  }
  return std::make_unique<YoloEnd2End>(model, options, *image);
}

}  // namespace headroom::inference
