// YOLOv8-seg and YOLO11-seg. Output 1: [1, 4 + classes + 32, N], like YOLOv8's with 32 mask coefficients
// per box. Output 2: prototypes [1, 32, h, w] at a quarter of the input's sides. A box's mask is the
// sigmoid of the prototypes weighted by its coefficients, clipped to the box. Each detection has the mask
// of the same index.
#include <algorithm>
#include <cmath>

#include "inference/tasks/detections.h"

namespace headroom::inference {
namespace {

struct Prototypes {
  const float* values = nullptr;
  std::int64_t count = 0;
  int width = 0, height = 0;
};

class YoloSegmentation final : public TaskBase {
 public:
  YoloSegmentation(const ModelDescription& model, const TaskOptions& options, const ImageInput& image,
                   std::size_t rows, std::int64_t prototypes, std::int64_t anchors)
      : TaskBase("yolo_segmentation", image,
                 class_names_of(model, model.outputs[rows].dims[1] - 4 - prototypes)),
        rows_(rows),
        collector_(options, anchors) {}

  void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
              FrameFindings& findings) override {
    const std::size_t maps = 1 - rows_;
    const float* rows = float_data(outputs, rows_, 1);
    const float* values = float_data(outputs, maps, 1);
    if (rows == nullptr || values == nullptr || outputs[rows_].rank != 3 || outputs[maps].rank != 4) return;
    const Prototypes prototypes{values, outputs[maps].dim(1), static_cast<int>(outputs[maps].dim(3)),
                                static_cast<int>(outputs[maps].dim(2))};
    const std::int64_t classes = outputs[rows_].dim(1) - 4 - prototypes.count;
    const std::int64_t anchors = outputs[rows_].dim(2);
    if (classes < 1) return;
    collector_.start();
    add_v8_candidates(rows, anchors, classes, collector_);
    const FrameMapping to_frame(transform);
    findings.masks.reserve(NonMaximumSuppression::kMaximumKept);
    collector_.finish(to_frame, findings, [&](const Candidate& box, Detection&) {
      add_mask(box, rows + (4 + classes) * anchors + box.anchor, anchors, prototypes, to_frame, findings);
    });
  }

 private:
  // `coefficient` points to the first coefficient; the next one is `anchors` elements further.
  void add_mask(const Candidate& box, const float* coefficient, std::int64_t anchors,
                const Prototypes& prototypes, const FrameMapping& to_frame, FrameFindings& findings) {
    const float step_x = static_cast<float>(input().width) / static_cast<float>(prototypes.width);
    const float step_y = static_cast<float>(input().height) / static_cast<float>(prototypes.height);
    const auto cell = [](float whole, int most) {
      return static_cast<int>(std::clamp(whole, 0.0F, static_cast<float>(most)));
    };
    const int left = cell(std::floor(box.left / step_x), prototypes.width);
    const int right = std::max(left, cell(std::ceil(box.right / step_x), prototypes.width));
    const int top = cell(std::floor(box.top / step_y), prototypes.height);
    const int bottom = std::max(top, cell(std::ceil(box.bottom / step_y), prototypes.height));
    Mask& mask = findings.add_mask();
    mask.class_id = box.class_id;
    mask.width = right - left;
    mask.height = bottom - top;
    mask.left = to_frame.x(static_cast<float>(left) * step_x);
    mask.right = to_frame.x(static_cast<float>(right) * step_x);
    mask.top = to_frame.y(static_cast<float>(top) * step_y);
    mask.bottom = to_frame.y(static_cast<float>(bottom) * step_y);
    mask.values.reserve(static_cast<std::size_t>(prototypes.width) *
                        static_cast<std::size_t>(prototypes.height));
    mask.values.resize(static_cast<std::size_t>(mask.width) * static_cast<std::size_t>(mask.height));
    logits_.resize(static_cast<std::size_t>(mask.width));
    for (int y = top; y < bottom; ++y) {
      std::ranges::fill(logits_, 0.0F);
      for (std::int64_t k = 0; k < prototypes.count; ++k) {
        const float weight = coefficient[k * anchors];
        const float* row = prototypes.values + (k * prototypes.height + y) * prototypes.width + left;
        for (std::size_t x = 0; x < logits_.size(); ++x) logits_[x] += weight * row[x];
      }
      std::uint8_t* out = mask.values.data() + std::ptrdiff_t{y - top} * mask.width;
      for (std::size_t x = 0; x < logits_.size(); ++x) out[x] = to_level(logits_[x]);
    }
  }

  static std::uint8_t to_level(float logit) {
    const float probability = sigmoid(logit);
    return probability > 0 ? static_cast<std::uint8_t>(std::lround(probability * 255)) : 0;  // 0 for NaN
  }

  std::size_t rows_;
  std::vector<float> logits_;
  DetectionCollector collector_;
};

}  // namespace

TaskResult make_yolo_segmentation(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds =
      "one image as input, and outputs [1,4+classes+n,N] and prototypes [1,n,h,w] of float32";
  const auto image = find_yolo_input(model, options.image_size);
  if (!image || model.outputs.size() != 2) return does_not_fit("yolo_segmentation", kNeeds);
  const std::size_t rows = model.outputs[0].dims.size() == 3 ? 0 : 1;
  const TensorSpec& boxes = model.outputs[rows];
  const TensorSpec& maps = model.outputs[1 - rows];
  if (!is_float(boxes) || !is_float(maps) || !fits(boxes.dims, {1, -1, -1}) ||
      !fits(maps.dims, {1, -1, -1, -1}))
    return does_not_fit("yolo_segmentation", kNeeds);
  const std::int64_t prototypes = maps.dims[1];
  const std::int64_t anchors = grid_cells(image->spec.width, image->spec.height, {8, 16, 32});
  if (prototypes < 1 || boxes.dims[1] < 5 + prototypes || !fits(boxes.dims, {1, boxes.dims[1], anchors}) ||
      !may_be_ultralytics(model, "segment"))
    return does_not_fit("yolo_segmentation", kNeeds);
  return std::make_unique<YoloSegmentation>(model, options, *image, rows, prototypes, anchors);
}

}  // namespace headroom::inference
