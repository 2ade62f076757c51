// Converts a frame to an input tensor in one pass. For each output row, the preprocessor takes the two source
// rows above and below it:
//
//   1. It interpolates both rows horizontally into 16-bit rows. It keeps them, because the next output row
//      may use the same source rows.
//   2. It blends the two rows vertically into 8-bit levels, normalises these and writes each element once,
//      to its place in the tensor.
//
// Each source row is read at most once. When a picture shrinks by more than two, unused rows are never
// read.
//
// The arithmetic is OpenCV's fixed point, to the bit, so a model sees the same input as through
// cv::resize. OpenCV's chain resize, copyMakeBorder, cvtColor, convertTo, split would pass over memory
// five times.
#include "inference/preprocessor.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace headroom::inference {
namespace {

constexpr float kOne = 2048;  // weights are in 1/2048

struct Tap {
  int first = 0;  // may be −1 or the last index; both neighbours are then clamped to the border
  std::int16_t weight = 0, next_weight = 0;
};

// Same rounding as cv::resize: position in double, fraction in float, weights rounded half to even.
Tap tap_at(int i, int from, int to) {
  const double scale = 1.0 / (static_cast<double>(to) / from);
  const auto position = static_cast<float>((i + 0.5) * scale - 0.5);
  const float floor = std::floor(position);
  const float fraction = position - floor;
  return {static_cast<int>(floor), static_cast<std::int16_t>(std::nearbyint((1.0F - fraction) * kOne)),
          static_cast<std::int16_t>(std::nearbyint(fraction * kOne))};
}

void set_column_taps(int from, int to, ColumnTaps& taps) {
  taps.width = to;
  taps.wide = 0;
  taps.neighbour = from > 1 ? 3 : 0;
  taps.offset.resize(static_cast<std::size_t>(to));
  taps.weights.resize(static_cast<std::size_t>(to) * 2);
  for (int x = 0; x < to; ++x) {
    Tap tap = tap_at(x, from, to);
    if (tap.first < 0) tap = {0, 2048, 0};
    if (tap.first >= from - 1) tap = from > 1 ? Tap{from - 2, 0, 2048} : Tap{0, 2048, 0};
    const auto i = static_cast<std::size_t>(x);
    taps.offset[i] = 3 * tap.first;
    taps.weights[2 * i] = tap.weight;
    taps.weights[2 * i + 1] = tap.next_weight;
    if (taps.offset[i] + 8 <= 3 * from) taps.wide = x + 1;
  }
}

float normalised(const InputSpec& spec, std::size_t channel, float level) {
  if (channel == 3) return 1;  // alpha
  return (level - spec.mean[channel]) * spec.scale[channel];
}

std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(std::nearbyint(value), 0.0F, 255.0F));
}

template <class Element>
Element element_of(float value) {
  if constexpr (std::is_same_v<Element, float>)
    return value;
  else
    return to_byte(value);
}

}  // namespace

Placement place_frame(const InputSpec& spec, int frame_width, int frame_height) {
  Placement place{0, 0, spec.width, spec.height, {}};
  const double ratio_x = static_cast<double>(spec.width) / frame_width;
  const double ratio_y = static_cast<double>(spec.height) / frame_height;
  place.transform = {
      static_cast<float>(ratio_x), static_cast<float>(ratio_y), 0, 0, frame_width, frame_height};
  if (spec.resize == Resize::stretch) return place;
  const double ratio = std::min(ratio_x, ratio_y);
  const bool top_left = spec.resize == Resize::letterbox_top_left;
  const auto side = [&](int frame_side, int input_side) {
    const double scaled = frame_side * ratio;
    return std::clamp(static_cast<int>(top_left ? std::trunc(scaled) : std::nearbyint(scaled)), 1,
                      input_side);
  };
  place.width = side(frame_width, spec.width);
  place.height = side(frame_height, spec.height);
  if (!top_left) {
    const auto before = [](int free) { return static_cast<int>(std::nearbyint(free / 2.0 - 0.1)); };
    place.x = before(spec.width - place.width);
    place.y = before(spec.height - place.height);
  }
  place.transform.scale_x = place.transform.scale_y = static_cast<float>(ratio);
  place.transform.offset_x = static_cast<float>(place.x);
  place.transform.offset_y = static_cast<float>(place.y);
  return place;
}

struct Preprocessor::Plan {
  explicit Plan(const InputSpec& input_spec, const RowKernels& row_kernels);
  void fit(int width, int height);
  void run(const std::uint8_t* bgr, std::size_t stride, void* destination);

  InputSpec spec;
  const RowKernels& kernels;
  int channels = 3;
  bool interleaved = false;  // interleaved pixels: nhwc with more than one channel
  std::array<std::array<std::uint8_t, 256>, 3> byte_of_level{};

  int frame_width = 0, frame_height = 0;
  Placement place;
  ColumnTaps columns;
  std::vector<Tap> rows;
  std::size_t row_elements = 0;  // elements of a row after the horizontal step
  std::array<std::vector<std::int16_t>, 2>
      kept_rows;  // the two source rows in use, after the horizontal step
  std::array<int, 2> kept_row{-1, -1};
  std::vector<std::uint8_t> levels;
  std::vector<float> mean_row, scale_row;  // for interleaved rows: the channels' values, repeated

 private:
  const std::int16_t* source_row(const std::uint8_t* bgr, std::size_t stride, int row, int other);
  template <class Element>
  void write_planes(const std::int16_t* top, const std::int16_t* bottom, const Tap& tap, Element* out);
  template <class Element>
  void write_pixels(const std::int16_t* top, const std::int16_t* bottom, const Tap& tap, Element* out);
  template <class Element>
  void write_gray(const std::int16_t* top, const std::int16_t* bottom, const Tap& tap, Element* out);
  template <class Element>
  void write_frame(const std::uint8_t* bgr, std::size_t stride, Element* out);
  template <class Element>
  void pad(Element* out) const;
};

Preprocessor::Plan::Plan(const InputSpec& input_spec, const RowKernels& row_kernels)
    : spec(input_spec), kernels(row_kernels), channels(channel_count(input_spec.channels)) {
  interleaved = spec.layout == Layout::nhwc && channels > 1;
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t level = 0; level < 256; ++level)
      byte_of_level[c][level] = to_byte(normalised(spec, c, static_cast<float>(level)));
  // Reserve for the largest picture that fits the input, so that a folder of mixed sizes causes no
  // allocations.
  const auto width = static_cast<std::size_t>(spec.width);
  const std::size_t elements = width * (interleaved ? static_cast<std::size_t>(channels) : 3);
  columns.offset.reserve(width);
  columns.weights.reserve(2 * width);
  rows.reserve(static_cast<std::size_t>(spec.height));
  for (auto& row : kept_rows) row.reserve(elements + 1);
  levels.reserve(elements);
  if (!interleaved) return;
  mean_row.reserve(elements);
  scale_row.reserve(elements);
}

void Preprocessor::Plan::fit(int width, int height) {
  kept_row = {-1, -1};
  if (width == frame_width && height == frame_height) return;
  frame_width = width;
  frame_height = height;
  place = place_frame(spec, width, height);
  set_column_taps(width, place.width, columns);
  rows.resize(static_cast<std::size_t>(place.height));
  for (int y = 0; y < place.height; ++y) rows[static_cast<std::size_t>(y)] = tap_at(y, height, place.height);
  const auto n = static_cast<std::size_t>(place.width);
  row_elements = n * (interleaved ? static_cast<std::size_t>(channels) : 3);
  for (auto& row : kept_rows) row.resize(row_elements + 1);  // see columns_to_pixels
  levels.resize(row_elements);
  if (!interleaved) return;
  mean_row.resize(row_elements);
  scale_row.resize(row_elements);
  for (std::size_t i = 0; i < row_elements; ++i) {
    const std::size_t c = i % static_cast<std::size_t>(channels);
    mean_row[i] = c == 3 ? -1 : spec.mean[c];  // alpha: (0 − −1) · 1
    scale_row[i] = c == 3 ? 1 : spec.scale[c];
  }
}

// Returns a source row after the horizontal step; computes it unless it is kept. `other` is the second row
// in use, which must not be overwritten.
const std::int16_t* Preprocessor::Plan::source_row(const std::uint8_t* bgr, std::size_t stride, int row,
                                                   int other) {
  for (std::size_t slot = 0; slot < 2; ++slot)
    if (kept_row[slot] == row) return kept_rows[slot].data();
  const std::size_t slot = kept_row[0] == other ? 1 : 0;
  kept_row[slot] = row;
  std::int16_t* out = kept_rows[slot].data();
  const std::uint8_t* source = bgr + static_cast<std::size_t>(row) * stride;
  if (interleaved)
    kernels.columns_to_pixels(source, columns, out, channels, spec.channels != ChannelOrder::bgr);
  else
    kernels.columns_to_planes(source, columns, out, place.width);
  return out;
}

template <class Element>
void Preprocessor::Plan::write_planes(const std::int16_t* top, const std::int16_t* bottom, const Tap& tap,
                                      Element* out) {
  const std::ptrdiff_t plane = std::ptrdiff_t{spec.width} * spec.height;
  for (int c = 0; c < 3; ++c) {
    const int source = spec.channels == ChannelOrder::bgr ? c : 2 - c;
    const std::ptrdiff_t from = std::ptrdiff_t{source} * place.width;
    const auto channel = static_cast<std::size_t>(c);
    if constexpr (std::is_same_v<Element, float>) {
      kernels.blend_to_float(top + from, bottom + from, tap.weight, tap.next_weight, spec.mean[channel],
                             spec.scale[channel], out + c * plane, place.width);
    } else {
      kernels.blend_to_levels(top + from, bottom + from, tap.weight, tap.next_weight, levels.data(),
                              place.width);
      for (int x = 0; x < place.width; ++x)
        out[c * plane + x] = byte_of_level[channel][levels[static_cast<std::size_t>(x)]];
    }
  }
  if (channels == 4) std::fill_n(out + 3 * plane, place.width, Element{1});
}

template <class Element>
void Preprocessor::Plan::write_pixels(const std::int16_t* top, const std::int16_t* bottom, const Tap& tap,
                                      Element* out) {
  const int n = place.width * channels;
  kernels.blend_to_levels(top, bottom, tap.weight, tap.next_weight, levels.data(), n);
  if constexpr (std::is_same_v<Element, float>) {
    const float* mean = mean_row.data();
    const float* scale = scale_row.data();
    const std::uint8_t* level = levels.data();
    for (int i = 0; i < n; ++i) out[i] = (static_cast<float>(level[i]) - mean[i]) * scale[i];
  } else {
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      const std::size_t c = i % static_cast<std::size_t>(channels);
      out[i] = c == 3 ? std::uint8_t{1} : byte_of_level[c][levels[i]];
    }
  }
}

// Same arithmetic as cv::cvtColor: 15-bit weights, rounded.
template <class Element>
void Preprocessor::Plan::write_gray(const std::int16_t* top, const std::int16_t* bottom, const Tap& tap,
                                    Element* out) {
  kernels.blend_to_levels(top, bottom, tap.weight, tap.next_weight, levels.data(),
                          static_cast<int>(row_elements));
  const std::uint8_t* blue = levels.data();
  const std::uint8_t* green = blue + place.width;
  const std::uint8_t* red = green + place.width;
  for (int x = 0; x < place.width; ++x) {
    const int grey = (blue[x] * 3735 + green[x] * 19235 + red[x] * 9798 + (1 << 14)) >> 15;
    out[x] = element_of<Element>(normalised(spec, 0, static_cast<float>(grey)));
  }
}

template <class Element>
void Preprocessor::Plan::write_frame(const std::uint8_t* bgr, std::size_t stride, Element* out) {
  const std::ptrdiff_t step = interleaved ? channels : 1;
  for (int y = 0; y < place.height; ++y) {
    const Tap& tap = rows[static_cast<std::size_t>(y)];
    const int upper = std::clamp(tap.first, 0, frame_height - 1);
    const int lower = std::clamp(tap.first + 1, 0, frame_height - 1);
    const std::int16_t* top = source_row(bgr, stride, upper, lower);
    // A row with weight zero is not read. When a picture shrinks by an odd factor, the lower row always
    // has weight zero.
    const std::int16_t* bottom = tap.next_weight == 0 ? top : source_row(bgr, stride, lower, upper);
    Element* target = out + (std::ptrdiff_t{place.y + y} * spec.width + place.x) * step;
    if (channels == 1)
      write_gray(top, bottom, tap, target);
    else if (interleaved)
      write_pixels(top, bottom, tap, target);
    else
      write_planes(top, bottom, tap, target);
  }
}

template <class Element>
void Preprocessor::Plan::pad(Element* out) const {
  std::array<Element, 4> value{};
  for (std::size_t c = 0; c < 4; ++c) value[c] = element_of<Element>(normalised(spec, c, spec.pad));
  const auto fill = [&](std::ptrdiff_t first, std::ptrdiff_t count) {  // in pixels of the input
    const std::ptrdiff_t plane = std::ptrdiff_t{spec.width} * spec.height;
    if (interleaved) {
      Element* pixel = out + first * channels;
      for (std::ptrdiff_t i = 0; i < count; ++i, pixel += channels)
        for (int c = 0; c < channels; ++c) pixel[c] = value[static_cast<std::size_t>(c)];
    } else {
      for (int c = 0; c < channels; ++c)
        std::fill_n(out + c * plane + first, count, value[static_cast<std::size_t>(c)]);
    }
  };
  const std::ptrdiff_t width = spec.width;
  const int below = spec.height - place.y - place.height;
  fill(0, place.y * width);
  fill((place.y + place.height) * width, below * width);
  const int beside = spec.width - place.x - place.width;
  if (place.x == 0 && beside == 0) return;
  for (int y = place.y; y < place.y + place.height; ++y) {
    fill(y * width, place.x);
    fill(y * width + place.x + place.width, beside);
  }
}

void Preprocessor::Plan::run(const std::uint8_t* bgr, std::size_t stride, void* destination) {
  if (spec.type == ElementType::uint8) {
    pad(static_cast<std::uint8_t*>(destination));
    write_frame(bgr, stride, static_cast<std::uint8_t*>(destination));
  } else {
    pad(static_cast<float*>(destination));
    write_frame(bgr, stride, static_cast<float*>(destination));
  }
}

Preprocessor::Preprocessor(const InputSpec& spec, const RowKernels* kernels)
    : plan_(std::make_unique<Plan>(spec, kernels != nullptr ? *kernels : *available_kernels().back())) {}
Preprocessor::Preprocessor(Preprocessor&&) noexcept = default;
Preprocessor& Preprocessor::operator=(Preprocessor&&) noexcept = default;
Preprocessor::~Preprocessor() = default;

FrameTransform Preprocessor::run(const std::uint8_t* bgr, int width, int height, std::size_t stride,
                                 void* destination) {
  plan_->fit(width, height);
  plan_->run(bgr, stride, destination);
  return plan_->place.transform;
}

}  // namespace headroom::inference
