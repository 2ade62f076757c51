#include "inference/preprocessor_kernels.h"

namespace headroom::inference {
namespace {

std::int16_t across(const std::uint8_t* left, int neighbour, const std::int16_t* weights) {
  return static_cast<std::int16_t>((left[0] * weights[0] + left[neighbour] * weights[1]) >> 4);
}

int level(int top, int bottom, int top_weight, int bottom_weight) {
  return (((top_weight * top) >> 16) + ((bottom_weight * bottom) >> 16) + 2) >> 2;
}

void columns_to_planes(const std::uint8_t* row, const ColumnTaps& taps, std::int16_t* out,
                       std::ptrdiff_t plane) {
  finish_planes(row, taps, 0, out, plane);
}

void columns_to_pixels(const std::uint8_t* row, const ColumnTaps& taps, std::int16_t* out, int pitch,
                       bool swap) {
  finish_pixels(row, taps, 0, out, pitch, swap);
}

void blend_to_levels(const std::int16_t* top, const std::int16_t* bottom, int top_weight, int bottom_weight,
                     std::uint8_t* out, int n) {
  for (int i = 0; i < n; ++i)
    out[i] = static_cast<std::uint8_t>(level(top[i], bottom[i], top_weight, bottom_weight));
}

void blend_to_float(const std::int16_t* top, const std::int16_t* bottom, int top_weight, int bottom_weight,
                    float mean, float scale, float* out, int n) {
  for (int i = 0; i < n; ++i)
    out[i] = (static_cast<float>(level(top[i], bottom[i], top_weight, bottom_weight)) - mean) * scale;
}

constexpr RowKernels kPortable{"portable", columns_to_planes, columns_to_pixels, blend_to_levels,
                               blend_to_float};

}  // namespace

void finish_planes(const std::uint8_t* row, const ColumnTaps& taps, int first, std::int16_t* out,
                   std::ptrdiff_t plane) {
  for (int x = first; x < taps.width; ++x) {
    const std::uint8_t* left = row + taps.offset[static_cast<std::size_t>(x)];
    const std::int16_t* weights = taps.weights.data() + std::ptrdiff_t{2} * x;
    for (int c = 0; c < 3; ++c) out[c * plane + x] = across(left + c, taps.neighbour, weights);
  }
}

void finish_pixels(const std::uint8_t* row, const ColumnTaps& taps, int first, std::int16_t* out, int pitch,
                   bool swap) {
  for (int x = first; x < taps.width; ++x) {
    const std::uint8_t* left = row + taps.offset[static_cast<std::size_t>(x)];
    const std::int16_t* weights = taps.weights.data() + std::ptrdiff_t{2} * x;
    std::int16_t* pixel = out + std::ptrdiff_t{x} * pitch;
    for (int c = 0; c < 3; ++c) pixel[swap ? 2 - c : c] = across(left + c, taps.neighbour, weights);
    if (pitch == 4) pixel[3] = 0;
  }
}

const RowKernels& portable_kernels() { return kPortable; }

const std::vector<const RowKernels*>& available_kernels() {
  static const std::vector<const RowKernels*> kAvailable = [] {
    std::vector<const RowKernels*> found{&kPortable};
    for (const RowKernels* kernels : {sse41_kernels(), avx2_kernels(), neon_kernels()})
      if (kernels != nullptr) found.push_back(kernels);
    return found;
  }();
  return kAvailable;
}

}  // namespace headroom::inference
