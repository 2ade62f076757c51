// M-LSD line segments, in the export with built-in suppression. Output 1: scores [1, h, w, 1] of line
// centres (sigmoid; zero if a neighbour is higher). Output 2: offsets [1, h, w, 4] from the centre to both
// ends, in map pixels. The map has half the input's sides. Input: RGB 0..255 with a fourth channel of
// ones, stretched.
#include <algorithm>
#include <cmath>

#include "inference/tasks/task_base.h"

namespace headroom::inference {
namespace {

constexpr float kShortestLine = 20;  // map pixels; the authors' value
constexpr std::size_t kMostLines = 200;

class Mlsd final : public TaskBase {
 public:
  Mlsd(const TaskOptions& options, const ImageInput& image, std::size_t scores, std::size_t offsets, int rows,
       int columns)
      : TaskBase("mlsd", image, {"line"}),
        confidence_(options.confidence),
        scores_(scores),
        offsets_(offsets),
        rows_(rows),
        columns_(columns) {
    found_.reserve(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  }

  void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
              FrameFindings& findings) override {
    const std::int64_t cells = std::int64_t{rows_} * columns_;
    const float* scores = float_data(outputs, scores_, cells);
    const float* offsets = float_data(outputs, offsets_, cells * 4);
    if (scores == nullptr || offsets == nullptr) return;
    found_.clear();
    for (std::int64_t i = 0; i < cells; ++i)
      if (scores[i] > confidence_ && std::isfinite(scores[i])) add(i, scores[i], offsets + 4 * i, transform);
    const std::size_t kept = std::min(found_.size(), kMostLines);
    const auto end = found_.begin() + static_cast<std::ptrdiff_t>(kept);
    std::partial_sort(found_.begin(), end, found_.end(),
                      [](const LineSegment& a, const LineSegment& b) { return a.score > b.score; });
    findings.lines.reserve(kMostLines);
    findings.lines.assign(found_.begin(), end);
  }

 private:
  void add(std::int64_t cell, float score, const float* offset, const FrameTransform& transform) {
    const float length = std::hypot(offset[2] - offset[0], offset[3] - offset[1]);
    if (!(length > kShortestLine) || !std::isfinite(length)) return;
    const FrameMapping to_frame(transform);
    const float step_x = static_cast<float>(input().width) / static_cast<float>(columns_);
    const float step_y = static_cast<float>(input().height) / static_cast<float>(rows_);
    const auto x = static_cast<float>(cell % columns_);
    const auto y = static_cast<float>(cell / columns_);
    found_.push_back(
        {to_frame.clamped_x((x + offset[0]) * step_x), to_frame.clamped_y((y + offset[1]) * step_y),
         to_frame.clamped_x((x + offset[2]) * step_x), to_frame.clamped_y((y + offset[3]) * step_y), score});
  }

  float confidence_;
  std::size_t scores_, offsets_;
  int rows_, columns_;
  std::vector<LineSegment> found_;
};

}  // namespace

TaskResult make_mlsd(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds =
      "an image of four channels as input, and outputs [1,h,w,1] (scores) and [1,h,w,4] (offsets)";
  auto image = find_image_input(model, options.image_size, 32);
  if (!image || image->spec.channels != ChannelOrder::rgba || image->spec.type != ElementType::float32 ||
      model.outputs.size() != 2)
    return does_not_fit("mlsd", kNeeds);
  const std::size_t scores = fits(model.outputs[0].dims, {1, -1, -1, 1}) ? 0 : 1;
  const std::vector<std::int64_t>& score_dims = model.outputs[scores].dims;
  const std::vector<std::int64_t>& offset_dims = model.outputs[1 - scores].dims;
  if (!fits(score_dims, {1, -1, -1, 1}) || !fits(offset_dims, {1, -1, -1, 4}) ||
      !is_float(model.outputs[0]) || !is_float(model.outputs[1]))
    return does_not_fit("mlsd", kNeeds);
  const int rows = image->spec.height / 2;
  const int columns = image->spec.width / 2;
  if (!fits(score_dims, {1, rows, columns, 1}) || !fits(offset_dims, {1, rows, columns, 4}))
    return does_not_fit("mlsd", "maps with half the image's sides");
  image->spec.resize = Resize::stretch;
  image->spec.scale = {1, 1, 1};
  return std::make_unique<Mlsd>(options, *image, scores, 1 - scores, rows, columns);
}

}  // namespace headroom::inference
