// DB text detection in PP-OCR's export: one map [1, 1, H, W] with the probability that a pixel is text.
//
// Steps: find the regions above 0.3; take the smallest rectangle around each; drop it if its mean
// probability is below 0.6; grow it by area · 1.5 / perimeter, because the map shows shrunk text.
// Constants and input are PaddleOCR's: BGR with ImageNet's mean and deviation (which are in RGB order;
// PaddleOCR does the same).
#include "inference/tasks/task_base.h"
#include "inference/tasks/text_region.h"

namespace headroom::inference {
namespace {

constexpr float kPixelThreshold = 0.3F;
constexpr float kBoxThreshold = 0.6F;
constexpr float kUnclipRatio = 1.5F;
constexpr float kSmallestSide = 3;       // before growing, in map pixels
constexpr float kSmallestGrownSide = 5;  // after growing
constexpr std::size_t kMostRegions = 1000;

class DbText final : public TaskBase {
 public:
  explicit DbText(const ImageInput& image)
      : TaskBase("db_text", image, {"text"}), regions_(image.spec.width, image.spec.height) {
    hull_.reserve(static_cast<std::size_t>(image.spec.height) * 2 + 2);
  }

  void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
              FrameFindings& findings) override {
    const int width = input().width;
    const int height = input().height;
    const float* map = float_data(outputs, 0, std::int64_t{width} * height);
    if (map == nullptr) return;
    const FrameMapping to_frame(transform);
    findings.quads.reserve(kMostRegions);
    const std::size_t found = regions_.find(map, kPixelThreshold);
    for (std::size_t i = 0; i < std::min(found, kMostRegions); ++i) {
      convex_hull(regions_.outline(i), hull_);
      const RotatedRectangle text = smallest_rectangle(hull_);
      if (text.short_side() < kSmallestSide) continue;
      const float score = mean_inside(map, width, height, text);
      if (!(score >= kBoxThreshold) || score > 1) continue;
      const float distance = text.width * text.height * kUnclipRatio / (2 * (text.width + text.height));
      const RotatedRectangle whole = text.grown(distance);
      if (whole.short_side() < kSmallestGrownSide) continue;
      findings.quads.push_back(to_quad(whole, score, to_frame));
    }
  }

 private:
  static Quad to_quad(const RotatedRectangle& rectangle, float score, const FrameMapping& to_frame) {
    Quad quad;
    quad.score = score;
    std::size_t k = 0;
    for (const Point corner : rectangle.corners()) {
      quad.corners[k++] = to_frame.clamped_x(corner.x);
      quad.corners[k++] = to_frame.clamped_y(corner.y);
    }
    return quad;
  }

  RegionFinder regions_;
  std::vector<Point> hull_;
};

bool looks_like_paddle(const ModelDescription& model) {
  return model.inputs[0].name == "x" || model.outputs[0].name.starts_with("sigmoid") ||
         model.outputs[0].name.starts_with("fetch_name");
}

}  // namespace

TaskResult make_db_text(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds =
      "one image as input, and one output [1,1,H,W] of float32 of the same size";
  auto image = find_image_input(model, options.image_size, 32);
  if (!image || image->spec.channels != ChannelOrder::rgb || image->spec.layout != Layout::nchw ||
      image->spec.type != ElementType::float32 || model.inputs.size() != 1)
    return does_not_fit("db_text", kNeeds);
  InputSpec& spec = image->spec;
  const TensorSpec* output = only_output(model, {1, 1, spec.height, spec.width});
  if (output == nullptr) return does_not_fit("db_text", kNeeds);
  if (options.forced.empty() && (output->dims[1] != 1 || !looks_like_paddle(model)))
    return does_not_fit("db_text", "the tensor names of a PaddlePaddle export");
  spec.channels = ChannelOrder::bgr;
  spec.resize = Resize::letterbox_top_left;
  spec.mean = {0.485F * 255, 0.456F * 255, 0.406F * 255};
  spec.scale = {1 / (0.229F * 255), 1 / (0.224F * 255), 1 / (0.225F * 255)};
  return std::make_unique<DbText>(*image);
}

}  // namespace headroom::inference
