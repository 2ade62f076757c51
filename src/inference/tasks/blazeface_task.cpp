// BlazeFace of MediaPipe. 896 anchors of unit size: 512 on a 16×16 grid (two per cell) and 384 on an 8×8
// grid (six per cell). The front model has a 128×128 input (strides 8, 16), the back model 256×256
// (strides 16, 32). Scores are logits. Boxes [x, y, w, h] and six landmarks are in input pixels, relative
// to the anchor's centre. Input: RGB in −1..1, letterboxed with black.
#include <algorithm>
#include <array>

#include "inference/tasks/detections.h"

namespace headroom::inference {
namespace {

struct Grid {
  int cells, anchors_per_cell;
  std::int64_t anchors() const { return std::int64_t{cells} * cells * anchors_per_cell; }
};
constexpr std::array kGrids{Grid{16, 2}, Grid{8, 6}};
constexpr int kColumns = 16;          // a box and six landmarks
constexpr float kLargestLogit = 100;  // MediaPipe clips scores to this range

// Indices of a grid's two outputs among the model's outputs.
struct GridOutputs {
  std::size_t scores = 0, boxes = 0;
};

class BlazeFace final : public TaskBase {
 public:
  BlazeFace(const TaskOptions& options, const ImageInput& image, std::array<GridOutputs, 2> outputs)
      : TaskBase("blazeface", image, {"face"}), outputs_(outputs), collector_(options, 896) {}

  void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
              FrameFindings& findings) override {
    collector_.start();
    std::array<const float*, 2> boxes{};
    std::uint32_t first_anchor = 0;
    for (std::size_t g = 0; g < kGrids.size(); ++g) {
      const float* scores = float_data(outputs, outputs_[g].scores, kGrids[g].anchors());
      boxes[g] = float_data(outputs, outputs_[g].boxes, kGrids[g].anchors() * kColumns);
      if (scores == nullptr || boxes[g] == nullptr) return;
      add_grid(kGrids[g], scores, boxes[g], first_anchor);
      first_anchor += static_cast<std::uint32_t>(kGrids[g].anchors());
    }
    const FrameMapping to_frame(transform);
    const auto first = static_cast<std::uint32_t>(kGrids[0].anchors());
    collector_.finish(to_frame, findings, [&](const Candidate& face, Detection& detection) {
      const std::size_t g = face.anchor < first ? 0 : 1;
      const std::uint32_t anchor = g == 0 ? face.anchor : face.anchor - first;
      const auto [x, y] = centre(kGrids[g], anchor);
      const float* row = boxes[g] + std::size_t{anchor} * kColumns;
      std::array<float, 12> landmarks{};
      for (std::size_t k = 0; k < landmarks.size(); k += 2) {
        landmarks[k] = row[4 + k] + x;
        landmarks[k + 1] = row[5 + k] + y;
      }
      set_landmarks(detection, landmarks, to_frame);
    });
  }

 private:
  // The centre of an anchor's cell, in input pixels.
  std::pair<float, float> centre(const Grid& grid, std::uint32_t anchor) const {
    const int cell = static_cast<int>(anchor) / grid.anchors_per_cell;
    const float step = static_cast<float>(input().width) / static_cast<float>(grid.cells);
    return {(static_cast<float>(cell % grid.cells) + 0.5F) * step,
            (static_cast<float>(cell / grid.cells) + 0.5F) * step};
  }

  void add_grid(const Grid& grid, const float* scores, const float* boxes, std::uint32_t first_anchor) {
    for (std::uint32_t i = 0; i < grid.anchors(); ++i) {
      const float score = sigmoid(std::clamp(scores[i], -kLargestLogit, kLargestLogit));
      if (!(score > collector_.confidence())) continue;
      const auto [x, y] = centre(grid, i);
      const float* row = boxes + std::size_t{i} * kColumns;
      collector_.add(from_centre(row[0] + x, row[1] + y, row[2], row[3], score, 0, first_anchor + i));
    }
  }

  std::array<GridOutputs, 2> outputs_;
  DetectionCollector collector_;
};

std::optional<GridOutputs> find_grid(const ModelDescription& model, const Grid& grid) {
  std::optional<std::size_t> scores, boxes;
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    if (!is_float(model.outputs[i])) continue;
    if (model.outputs[i].dims == std::vector<std::int64_t>{1, grid.anchors(), 1}) scores = i;
    if (model.outputs[i].dims == std::vector<std::int64_t>{1, grid.anchors(), kColumns}) boxes = i;
  }
  if (!scores || !boxes) return std::nullopt;
  return GridOutputs{*scores, *boxes};
}

}  // namespace

TaskResult make_blazeface(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds =
      "a square image of 128 or 256 pixels as input, and outputs [1,512,1], [1,384,1], [1,512,16], "
      "[1,384,16]";
  auto image = find_image_input(model, 128, 128);
  if (!image || image->spec.channels != ChannelOrder::rgb || image->spec.width != image->spec.height ||
      image->spec.width % 128 != 0)
    return does_not_fit("blazeface", kNeeds);
  const auto fine = find_grid(model, kGrids[0]);
  const auto coarse = find_grid(model, kGrids[1]);
  if (!fine || !coarse) return does_not_fit("blazeface", kNeeds);
  image->spec.pad = 0;
  normalise(image->spec, {127.5F, 127.5F, 127.5F}, {1 / 127.5F, 1 / 127.5F, 1 / 127.5F});
  return std::make_unique<BlazeFace>(options, *image, std::array{*fine, *coarse});
}

}  // namespace headroom::inference
