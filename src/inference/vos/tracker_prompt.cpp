// A frame with a prompt of an object: points, a box or a mask.
#include <algorithm>

#include "inference/vos/tracker_state.h"

namespace headroom::inference::vos {
namespace {

constexpr float kNegative = 0, kPositive = 1, kBoxLeftTop = 2, kBoxRightBottom = 3;

}  // namespace

std::vector<LabelledPoint> Tracker::State::points_of(const VosPrompt& prompt) const {
  const float x_scale = static_cast<float>(side()) / static_cast<float>(width);
  const float y_scale = static_cast<float>(side()) / static_cast<float>(height);
  std::vector<LabelledPoint> points;
  if (prompt.box) {
    points.push_back({prompt.box->left * x_scale, prompt.box->top * y_scale, kBoxLeftTop});
    points.push_back({prompt.box->right * x_scale, prompt.box->bottom * y_scale, kBoxRightBottom});
  }
  for (const PromptPoint& point : prompt.points)
    points.push_back({point.x * x_scale, point.y * y_scale, point.positive ? kPositive : kNegative});
  return points;
}

// The logits of a mask prompt, and the decoder's mask input: a convolution of the mask, 4 × 4 with stride 4.
std::vector<float> Tracker::State::mask_prompt_logits(const BinaryMask& mask, std::vector<float>& mask_input,
                                                      bool& is_any) const {
  const int wide = model.side;
  std::vector<float> inside(mask.pixels.size());
  std::ranges::transform(mask.pixels, inside.begin(),
                         [](std::uint8_t pixel) { return pixel != 0 ? 1.0F : 0.0F; });
  if (mask.width != wide || mask.height != wide) {
    inside = resize_antialiased(inside, mask.width, mask.height, wide, wide);
    for (float& value : inside) value = value >= 0.5F ? 1.0F : 0.0F;
  }
  is_any = std::ranges::find(inside, 1.0F) != inside.end();
  const auto& weights = *model.manifest.mask_downsample;
  const std::size_t stride = static_cast<std::size_t>(wide), small = static_cast<std::size_t>(quarter());
  mask_input.assign(quarter_pixels(), weights[16]);
  for (std::size_t y = 0; y < small * 4; ++y)
    for (std::size_t x = 0; x < small * 4; ++x)
      mask_input[y / 4 * small + x / 4] += inside[y * stride + x] * weights[y % 4 * 4 + x % 4];
  for (float& value : inside) value = value * kMaskScale + kMaskBias;
  return resize_antialiased(inside, wide, wide, static_cast<int>(quarter()), static_cast<int>(quarter()));
}

Status Tracker::State::prompt_object(std::int64_t frame, std::size_t object, const VosPrompt& prompt) {
  ObjectState& state = states[object];
  const std::int64_t count = model.fixed.objects.value_or(1);
  rows.assign(1, {object, 0});
  if (prompt.mask) {
    std::vector<float> mask_input;
    bool is_any = false;
    const std::vector<float> logits = mask_prompt_logits(*prompt.mask, mask_input, is_any);
    if (auto status = decode({}, count, &mask_input, false); !status) return status;
    take_token(0, 0, true);
    std::ranges::copy(logits, state.logits.begin());
    state.score = is_any ? kMaskScale + kMaskBias : kMaskBias;
  } else {
    const std::vector<LabelledPoint> points = points_of(prompt);
    if (auto status = decode(points, count, nullptr, true); !status) return status;
    take_token(0, static_cast<int>(points.size()), false);
  }
  // The predictor makes the memory of a prompt frame from the mask that it stored, in which holes are filled.
  if (is_predictor()) holes.fill(state.logits, static_cast<int>(quarter()), static_cast<int>(quarter()));
  return remember(frame, true, count);
}

}  // namespace headroom::inference::vos
