#include "inference/tasks/task_base.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace headroom::inference {
namespace {

constexpr int kLargestSide = 16384;  // a larger side means a broken or hostile model

bool is_channel_count(std::int64_t n) { return n == 1 || n == 3 || n == 4; }

int rounded_up(int value, int multiple) {
  value = std::clamp(value, 1, kLargestSide);
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

std::optional<ImageInput> find_image_input(const ModelDescription& model, int image_size, int multiple) {
  ImageInput found;
  bool has_image = false;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const TensorSpec& spec = model.inputs[i];
    std::vector<std::int64_t> dims = spec.dims;
    const bool takes_pixels = spec.type == ElementType::float32 || spec.type == ElementType::uint8;
    if (!has_image && takes_pixels && dims.size() == 4 && dims[0] <= 1) {
      const bool nchw = is_channel_count(dims[1]);
      if (nchw || is_channel_count(dims[3])) {
        const std::size_t rows = nchw ? 2 : 1;
        if (dims[rows] < 0) dims[rows] = rounded_up(image_size, multiple);
        if (dims[rows + 1] < 0) dims[rows + 1] = rounded_up(image_size, multiple);
        if (dims[rows] < 1 || dims[rows] > kLargestSide || dims[rows + 1] < 1 ||
            dims[rows + 1] > kLargestSide)
          return std::nullopt;
        has_image = true;
        InputSpec& input = found.spec;
        input.input_index = i;
        input.height = static_cast<int>(dims[rows]);
        input.width = static_cast<int>(dims[rows + 1]);
        input.layout = nchw ? Layout::nchw : Layout::nhwc;
        const std::int64_t channels = nchw ? dims[1] : dims[3];
        input.channels = channels == 1   ? ChannelOrder::gray
                         : channels == 4 ? ChannelOrder::rgba
                                         : ChannelOrder::rgb;
        input.type = spec.type;
        if (input.type == ElementType::uint8) input.scale = {1, 1, 1};
      }
    }
    for (std::int64_t& dim : dims)
      if (dim < 0) dim = 1;
    found.dims.push_back(std::move(dims));
  }
  if (!has_image) return std::nullopt;
  return found;
}

void normalise(InputSpec& input, std::array<float, 3> mean, std::array<float, 3> scale) {
  if (input.type == ElementType::uint8) return;
  input.mean = mean;
  input.scale = scale;
}

bool fits(const std::vector<std::int64_t>& dims, std::initializer_list<std::int64_t> pattern) {
  return std::equal(dims.begin(), dims.end(), pattern.begin(), pattern.end(),
                    [](std::int64_t dim, std::int64_t wanted) {
                      return dim < 0 || (wanted < 0 ? dim > 0 : dim == wanted);
                    });
}

bool is_float(const TensorSpec& spec) { return spec.type == ElementType::float32; }

std::int64_t grid_cells(int width, int height, std::initializer_list<int> strides) {
  std::int64_t cells = 0;
  for (const int stride : strides) cells += static_cast<std::int64_t>(width / stride) * (height / stride);
  return cells;
}

const float* float_data(std::span<const TensorView> outputs, std::size_t index, std::int64_t at_least) {
  if (index >= outputs.size()) return nullptr;
  const TensorView& view = outputs[index];
  if (view.data == nullptr || view.type != ElementType::float32 || view.count() < at_least) return nullptr;
  return view.as_float();
}

FrameMapping::FrameMapping(const FrameTransform& transform)
    : inverse_x(1 / transform.scale_x),
      inverse_y(1 / transform.scale_y),
      offset_x(transform.offset_x),
      offset_y(transform.offset_y),
      width(static_cast<float>(transform.frame_width)),
      height(static_cast<float>(transform.frame_height)) {}

float FrameMapping::clamped_x(float input_x) const { return std::clamp(x(input_x), 0.0F, width); }
float FrameMapping::clamped_y(float input_y) const { return std::clamp(y(input_y), 0.0F, height); }

tl::unexpected<Error> does_not_fit(std::string_view task, std::string_view needs) {
  return usage_error(fmt::format("the model does not fit the task {}", task),
                     fmt::format("it needs {}", needs), "omit --task to detect the task, or choose another");
}

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

}  // namespace headroom::inference
