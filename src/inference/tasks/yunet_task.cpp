// YuNet: twelve outputs, cls, obj, bbox and kps for each of the strides 8, 16 and 32, one row per cell.
// Score = √(cls · obj); box centre = (cell + output) · stride, size = exp(output) · stride; five
// landmarks. Input: BGR 0..255, sides a multiple of 32, padded right and bottom with black.
#include <algorithm>
#include <array>
#include <cmath>

#include "inference/tasks/detections.h"

namespace headroom::inference {
namespace {

constexpr std::array kFaceStrides{8, 16, 32};
constexpr int kLandmarks = 5;

// Indices of a stride's outputs among the model's outputs.
struct StrideOutputs {
  std::size_t cls = 0, obj = 0, bbox = 0, kps = 0;
};
using Outputs = std::array<StrideOutputs, kFaceStrides.size()>;

struct Cell {
  float x = 0, y = 0, stride = 0;
};

class YuNet final : public TaskBase {
 public:
  YuNet(const TaskOptions& options, const ImageInput& image, const Outputs& outputs)
      : TaskBase("yunet", image, {"face"}),
        outputs_(outputs),
        collector_(options, grid_cells(image.spec.width, image.spec.height, {8, 16, 32})) {}

  void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
              FrameFindings& findings) override {
    collector_.start();
    std::uint32_t first = 0;
    for (std::size_t s = 0; s < kFaceStrides.size(); ++s) {
      const std::int64_t cells = cells_of(kFaceStrides[s]);
      const float* cls = float_data(outputs, outputs_[s].cls, cells);
      const float* obj = float_data(outputs, outputs_[s].obj, cells);
      const float* bbox = float_data(outputs, outputs_[s].bbox, cells * 4);
      const float* kps = float_data(outputs, outputs_[s].kps, cells * 2 * kLandmarks);
      if (cls == nullptr || obj == nullptr || bbox == nullptr || kps == nullptr) return;
      for (std::uint32_t i = 0; i < cells; ++i)
        if (const float score = score_of(cls[i], obj[i]); score > collector_.confidence())
          add(bbox + std::size_t{i} * 4, cell_at(s, i), score, first + i);
      first += static_cast<std::uint32_t>(cells);
    }
    const FrameMapping to_frame(transform);
    collector_.finish(to_frame, findings, [&](const Candidate& face, Detection& detection) {
      add_landmarks(outputs, face.anchor, to_frame, detection);
    });
  }

 private:
  static float score_of(float cls, float obj) {
    return std::sqrt(std::clamp(cls, 0.0F, 1.0F) * std::clamp(obj, 0.0F, 1.0F));
  }
  std::int64_t cells_of(int stride) const { return grid_cells(input().width, input().height, {stride}); }
  Cell cell_at(std::size_t s, std::uint32_t i) const {
    const auto columns = static_cast<std::uint32_t>(input().width / kFaceStrides[s]);
    return {static_cast<float>(i % columns), static_cast<float>(i / columns),
            static_cast<float>(kFaceStrides[s])};
  }

  void add(const float* box, const Cell& cell, float score, std::uint32_t anchor) {
    collector_.add(from_centre((box[0] + cell.x) * cell.stride, (box[1] + cell.y) * cell.stride,
                               std::exp(box[2]) * cell.stride, std::exp(box[3]) * cell.stride, score, 0,
                               anchor));
  }

  void add_landmarks(std::span<const TensorView> outputs, std::uint32_t anchor, const FrameMapping& to_frame,
                     Detection& detection) const {
    std::size_t s = 0;
    for (; anchor >= cells_of(kFaceStrides[s]); ++s)
      anchor -= static_cast<std::uint32_t>(cells_of(kFaceStrides[s]));
    const Cell cell = cell_at(s, anchor);
    const float* points = outputs[outputs_[s].kps].as_float() + std::size_t{anchor} * 2 * kLandmarks;
    std::array<float, std::size_t{2} * kLandmarks> pixels{};
    for (std::size_t k = 0; k < pixels.size(); k += 2) {
      pixels[k] = (points[k] + cell.x) * cell.stride;
      pixels[k + 1] = (points[k + 1] + cell.y) * cell.stride;
    }
    set_landmarks(detection, pixels, to_frame);
  }

  Outputs outputs_;
  DetectionCollector collector_;
};

std::optional<std::size_t> find_output(const ModelDescription& model, std::string_view kind, int stride,
                                       std::int64_t cells, std::int64_t columns) {
  const std::string wanted = std::string(kind) + "_" + std::to_string(stride);
  for (std::size_t i = 0; i < model.outputs.size(); ++i)
    if (model.outputs[i].name == wanted && is_float(model.outputs[i]) &&
        fits(model.outputs[i].dims, {1, cells, columns}))
      return i;
  return std::nullopt;
}

}  // namespace

TaskResult make_yunet(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds =
      "an image whose sides are multiples of 32 as input, and outputs cls_, obj_, bbox_ and kps_ of strides "
      "8, 16 and 32";
  auto image = find_image_input(model, options.image_size, 32);
  if (!image || image->spec.channels != ChannelOrder::rgb || image->spec.width % 32 != 0 ||
      image->spec.height % 32 != 0)
    return does_not_fit("yunet", kNeeds);
  Outputs outputs;
  for (std::size_t s = 0; s < kFaceStrides.size(); ++s) {
    const std::int64_t cells = grid_cells(image->spec.width, image->spec.height, {kFaceStrides[s]});
    const auto cls = find_output(model, "cls", kFaceStrides[s], cells, 1);
    const auto obj = find_output(model, "obj", kFaceStrides[s], cells, 1);
    const auto bbox = find_output(model, "bbox", kFaceStrides[s], cells, 4);
    const auto kps = find_output(model, "kps", kFaceStrides[s], cells, std::int64_t{2} * kLandmarks);
    if (!cls || !obj || !bbox || !kps) return does_not_fit("yunet", kNeeds);
    outputs[s] = {*cls, *obj, *bbox, *kps};
  }
  image->spec.channels = ChannelOrder::bgr;
  image->spec.resize = Resize::letterbox_top_left;
  image->spec.pad = 0;
  image->spec.scale = {1, 1, 1};
  return std::make_unique<YuNet>(options, *image, outputs);
}

}  // namespace headroom::inference
