#include "inference/tasks/task_base.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace headroom::inference {
namespace {

constexpr int kLargestSide = 16384;  // a larger side means a broken or hostile model

bool is_channel_count(std::int64_t n) { return n == 1 || n == 3 || n == 4; }

int rounded_up(int value, int multiple) {
  value = std::clamp(value, 1, kLargestSide);
  return (value + multiple - 1) / multiple * multiple;
}

// The classes of COCO, in their order.
constexpr std::string_view kCoco =
    "person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,"
    "stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,backpack,"
    "umbrella,handbag,tie,suitcase,frisbee,skis,snowboard,sports ball,kite,baseball bat,"
    "baseball glove,skateboard,surfboard,tennis racket,bottle,wine glass,cup,fork,knife,spoon,bowl,"
    "banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,potted plant,"
    "bed,dining table,toilet,tv,laptop,mouse,remote,keyboard,cell phone,microwave,oven,toaster,sink,"
    "refrigerator,book,clock,vase,scissors,teddy bear,hair drier,toothbrush";
constexpr std::int64_t kCocoClasses = 80;

constexpr std::size_t kMostClasses = 100000;

// Reads a quoted Python string at the front of `text` and removes it; returns nothing if there is none.
std::optional<std::string> take_quoted(std::string_view& text) {
  if (text.empty() || (text.front() != '\'' && text.front() != '"')) return std::nullopt;
  const char quote = text.front();
  std::string value;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == quote) {
      text.remove_prefix(i + 1);
      return value;
    }
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    value += text[i];
  }
  return std::nullopt;
}

// Reads a key such as "12:" at the front of `text` and removes it.
std::optional<std::size_t> take_key(std::string_view& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view digits = trim(text.substr(0, colon));
  if (digits.size() >= 2 && (digits.front() == '\'' || digits.front() == '"'))
    digits = digits.substr(1, digits.size() - 2);
  const auto key = parse_number<std::size_t>(digits);
  text.remove_prefix(colon + 1);
  return key;
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

const TensorSpec* only_output(const ModelDescription& model, std::initializer_list<std::int64_t> pattern) {
  if (model.outputs.size() != 1 || !is_float(model.outputs[0]) || !fits(model.outputs[0].dims, pattern))
    return nullptr;
  return &model.outputs[0];
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

std::vector<std::string> parse_names(std::string_view text) {
  text = trim(text);
  const bool dict = text.starts_with('{') && text.ends_with('}');
  const bool list = text.starts_with('[') && text.ends_with(']');
  if (!dict && !list) return {};
  text = trim(text.substr(1, text.size() - 2));
  std::vector<std::string> names;
  while (!text.empty()) {
    std::size_t index = names.size();
    if (dict) {
      const auto key = take_key(text);
      if (!key || *key >= kMostClasses) return {};
      index = *key;
    }
    text = trim(text);
    auto name = take_quoted(text);
    if (!name) return {};
    if (names.size() <= index) names.resize(index + 1);
    names[index] = std::move(*name);
    text = trim(text);
    if (text.starts_with(',')) text = trim(text.substr(1));
  }
  return names;
}

std::vector<std::string> class_names_of(const ModelDescription& model, std::int64_t count) {
  std::vector<std::string> names = parse_names(model.metadata_value("names"));
  if (!names.empty() && (count < 0 || static_cast<std::int64_t>(names.size()) == count)) return names;
  if (count != kCocoClasses) return {};
  const auto coco = split(kCoco, ',');
  return {coco.begin(), coco.end()};
}

}  // namespace headroom::inference
