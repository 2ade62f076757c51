// Masks of the whole picture. Either one channel, [1, 1, h, w] or [1, h, w, 1], with the probability (or
// its logit) of a person or another foreground. Or N channels, of which the highest gives the pixel's
// class (channel 0 is the background). Input: RGB 0..1 for selfie segmentation, −1..1 for BodyPix,
// ImageNet's mean and deviation for networks with N channels.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "inference/tasks/task_base.h"

namespace headroom::inference {
namespace {

constexpr std::int64_t kMostSegmentClasses = 256;
constexpr std::string_view kBodyPixMap = "segments";
constexpr int kBodyPixStep = 16;
constexpr int kCoarsest = 32;  // a map pixel is at most this many input pixels wide

class Segmentation final : public TaskBase {
 public:
  Segmentation(const ModelDescription& model, const ImageInput& image, std::size_t output, bool planes,
               std::int64_t channels, bool corners_meet)
      : TaskBase("segmentation", image,
                 channels == 1 ? std::vector<std::string>{"foreground"} : class_names_of(model, channels)),
        output_(output),
        planes_(planes),
        corners_meet_(corners_meet) {}

  void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
              FrameFindings& findings) override {
    const float* values = float_data(outputs, output_, 1);
    if (values == nullptr || outputs[output_].rank != 4) return;
    const TensorView& view = outputs[output_];
    const Map map{view.dim(planes_ ? 3 : 2), view.dim(planes_ ? 2 : 1), view.dim(planes_ ? 1 : 3)};
    if (map.channels < 1 || map.channels > kMostSegmentClasses || map.width > 1 << 15 || map.height > 1 << 15)
      return;
    if (map.channels == 1)
      add_soft(values, map, transform, findings);
    else
      add_classes(values, map, transform, findings);
  }

 private:
  struct Map {
    std::int64_t width, height, channels;
    std::size_t pixels() const { return static_cast<std::size_t>(width * height); }
  };

  Mask& add_mask(const Map& map, const FrameTransform& transform, FrameFindings& findings) const {
    Mask& mask = findings.add_mask();
    mask.width = static_cast<std::int32_t>(map.width);
    mask.height = static_cast<std::int32_t>(map.height);
    mask.values.resize(map.pixels());
    // The stretched picture fills the input. The mask also covers the map's overhang beyond it.
    const FrameMapping to_frame(transform);
    const float beyond_x = overhang(input().width, map.width);
    const float beyond_y = overhang(input().height, map.height);
    mask.left = to_frame.x(-beyond_x);
    mask.top = to_frame.y(-beyond_y);
    mask.right = to_frame.x(static_cast<float>(input().width) + beyond_x);
    mask.bottom = to_frame.y(static_cast<float>(input().height) + beyond_y);
    return mask;
  }

  // How far the map extends beyond the input on each side, in input pixels.
  float overhang(int side, std::int64_t cells) const {
    if (!corners_meet_ || cells < 2) return 0;
    const float cell = static_cast<float>(side - 1) / static_cast<float>(cells - 1);
    return (cell - 1) / 2;
  }

  void add_soft(const float* values, const Map& map, const FrameTransform& transform,
                FrameFindings& findings) {
    // Resizing inside a network can overshoot 0 and 1 by a rounding error. A meaningful logit lies well
    // outside.
    constexpr float kOvershoot = 0.05F;
    const auto outside = [](float value) { return value < -kOvershoot || value > 1 + kOvershoot; };
    // A network outputs either probabilities or logits, so one frame with logits decides for all following
    // frames.
    gives_logits_ = gives_logits_ || std::any_of(values, values + map.pixels(), outside);
    const auto probability = [logits = gives_logits_](float value) {
      return logits ? sigmoid(value) : value;
    };
    const auto above_half = [&](float value) { return probability(value) > 0.5F; };
    if (std::none_of(values, values + map.pixels(), above_half)) return;
    Mask& mask = add_mask(map, transform, findings);
    for (std::size_t i = 0; i < map.pixels(); ++i) {
      const float p = probability(values[i]);
      mask.values[i] = p > 0 ? static_cast<std::uint8_t>(std::lround(std::min(p, 1.0F) * 255)) : 0;
    }
  }

  void add_classes(const float* values, const Map& map, const FrameTransform& transform,
                   FrameFindings& findings) {
    const auto channels = static_cast<std::size_t>(map.channels);
    const std::size_t next_channel = planes_ ? map.pixels() : 1;
    const std::size_t next_pixel = planes_ ? 1 : channels;
    best_.resize(map.pixels());
    seen_.assign(channels, 0);
    // Loop over tiles of pixels, then channels: with planes, the reads of one channel are then contiguous.
    // The other loop order took 150 ms for 150 classes at 512 × 512.
    constexpr std::size_t kTile = 256;
    for (std::size_t tile = 0; tile < map.pixels(); tile += kTile) {
      const std::size_t count = std::min(kTile, map.pixels() - tile);
      std::array<float, kTile> highest;
      std::uint8_t* best = best_.data() + tile;
      const float* first = values + tile * next_pixel;
      for (std::size_t i = 0; i < count; ++i) {
        highest[i] = first[i * next_pixel];
        best[i] = 0;
      }
      for (std::size_t c = 1; c < channels; ++c) {
        const float* channel = first + c * next_channel;
        for (std::size_t i = 0; i < count; ++i) {
          const float value = channel[i * next_pixel];
          if (!(value > highest[i])) continue;
          highest[i] = value;
          best[i] = static_cast<std::uint8_t>(c);
        }
      }
      for (std::size_t i = 0; i < count; ++i) seen_[best[i]] = 1;
    }
    for (std::size_t c = 1; c < channels; ++c) {
      if (seen_[c] == 0) continue;
      Mask& mask = add_mask(map, transform, findings);
      mask.class_id = static_cast<std::int32_t>(c);
      for (std::size_t i = 0; i < map.pixels(); ++i) mask.values[i] = best_[i] == c ? 255 : 0;
    }
  }

  std::size_t output_;
  bool planes_, corners_meet_;
  bool gives_logits_ = false;
  std::vector<std::uint8_t> best_, seen_;  // class of each pixel; classes that occur
};

bool has_mask_name(std::string_view output_name) {
  const std::string name = to_lower(output_name);
  return name.find("seg") != std::string::npos || name.find("mask") != std::string::npos;
}

// BodyPix has eight outputs, of which "segments" shows the person. Other models have one output.
std::optional<std::size_t> find_map(const ModelDescription& model) {
  for (std::size_t i = 0; i < model.outputs.size(); ++i)
    if (model.outputs[i].name == kBodyPixMap) return i;
  if (model.outputs.size() == 1) return 0;
  return std::nullopt;
}

void add_one_to_dynamic_sides(const ModelDescription& model, ImageInput& image) {
  InputSpec& spec = image.spec;
  const std::vector<std::int64_t>& declared = model.inputs[spec.input_index].dims;
  const std::size_t rows = spec.layout == Layout::nchw ? 2 : 1;
  if (declared[rows] < 0) ++spec.height;
  if (declared[rows + 1] < 0) ++spec.width;
  image.dims[spec.input_index][rows] = spec.height;
  image.dims[spec.input_index][rows + 1] = spec.width;
}

// True if the map's sides, which start at `rows` in its dims, fit the picture's sides.
bool sides_fit(const TensorSpec& output, std::size_t rows, const InputSpec& input) {
  const auto fits_side = [](std::int64_t side, int input_side) {
    return side < 0 || (side > 0 && side <= input_side && input_side <= side * kCoarsest);
  };
  return fits_side(output.dims[rows], input.height) && fits_side(output.dims[rows + 1], input.width);
}

}  // namespace

TaskResult make_segmentation(const ModelDescription& model, const TaskOptions& options) {
  constexpr std::string_view kNeeds =
      "an image as input, and one output [1,N,h,w] or [1,h,w,N] of float32 with at most 256 channels";
  auto image = find_image_input(model, options.image_size, 32);
  const auto output = find_map(model);
  if (!image || image->spec.channels != ChannelOrder::rgb || !output)
    return does_not_fit("segmentation", kNeeds);
  const TensorSpec& map = model.outputs[*output];
  if (!is_float(map) || map.dims.size() != 4 || map.dims[0] > 1) return does_not_fit("segmentation", kNeeds);
  InputSpec& spec = image->spec;
  const auto channels_at = [&](std::size_t at, std::size_t rows) {
    const std::int64_t channels = map.dims[at];
    return channels >= 1 && channels <= kMostSegmentClasses && sides_fit(map, rows, spec);
  };
  const bool pixels_last = channels_at(3, 1);
  const bool planes = channels_at(1, 2) && !(pixels_last && spec.layout == Layout::nhwc);
  if (!planes && !pixels_last) return does_not_fit("segmentation", kNeeds);
  const std::int64_t channels = map.dims[planes ? 1 : 3];
  if (options.forced.empty()) {
    const bool classes_at_full_size =
        channels > 1 && map.dims[planes ? 2 : 1] == spec.height && map.dims[planes ? 3 : 2] == spec.width;
    if (!has_mask_name(map.name) && !classes_at_full_size)
      return does_not_fit("segmentation", "an output named after a mask, or classes at full size");
  }
  spec.resize = Resize::stretch;
  const bool bodypix = map.name == kBodyPixMap;
  if (bodypix) {
    add_one_to_dynamic_sides(model, *image);
    normalise(spec, {127.5F, 127.5F, 127.5F}, {1 / 127.5F, 1 / 127.5F, 1 / 127.5F});
  } else if (channels > 1) {
    normalise(spec, {0.485F * 255, 0.456F * 255, 0.406F * 255},
              {1 / (0.229F * 255), 1 / (0.224F * 255), 1 / (0.225F * 255)});
  }
  const bool corners_meet = bodypix && spec.width % kBodyPixStep == 1 && spec.height % kBodyPixStep == 1;
  return std::make_unique<Segmentation>(model, *image, *output, planes, channels, corners_meet);
}

}  // namespace headroom::inference
