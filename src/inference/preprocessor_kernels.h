// The inner loops of pre-processing, with one portable version and faster ones for x86 and NEON. All give the
// same numbers: the arithmetic is OpenCV's fixed point (11-bit weights) and is exact in every version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace headroom::inference {

// Where each output pixel of a row comes from: a pixel and its right neighbour.
struct ColumnTaps {
  std::vector<std::int32_t> offset;   // bytes from the row's start to the left pixel (B, G, R)
  std::vector<std::int16_t> weights;  // left and right, in 1/2048, a pair an output pixel
  int width = 0;                      // output pixels
  int wide = 0;                       // leading ones for which eight bytes may be read at `offset`
  int neighbour = 3;                  // bytes to the right pixel: 0 if the picture is one pixel wide
};

// Rows after the horizontal step: level · 128, so 0..32640, in 16 bits.
struct RowKernels {
  std::string_view name;
  // One row of BGR into three rows: blue, green, red, `plane` elements apart.
  void (*columns_to_planes)(const std::uint8_t* row, const ColumnTaps& taps, std::int16_t* out,
                            std::ptrdiff_t plane);
  // One row of BGR into pixels of `pitch` (3 or 4) elements; `swap`: as RGB. The fourth element is 0. Writes
  // up to one element past the last pixel.
  void (*columns_to_pixels)(const std::uint8_t* row, const ColumnTaps& taps, std::int16_t* out, int pitch,
                            bool swap);
  // Two such rows, with weights in 1/2048, into levels 0..255.
  void (*blend_to_levels)(const std::int16_t* top, const std::int16_t* bottom, int top_weight,
                          int bottom_weight, std::uint8_t* out, int n);
  // The same, then (level − mean) · scale.
  void (*blend_to_float)(const std::int16_t* top, const std::int16_t* bottom, int top_weight,
                         int bottom_weight, float mean, float scale, float* out, int n);
};

const RowKernels& portable_kernels();
// Every version that this machine can run, the fastest last.
const std::vector<const RowKernels*>& available_kernels();

// The portable loops from output pixel `first` on: what the others leave over at the end of a row.
void finish_planes(const std::uint8_t* row, const ColumnTaps& taps, int first, std::int16_t* out,
                   std::ptrdiff_t plane);
void finish_pixels(const std::uint8_t* row, const ColumnTaps& taps, int first, std::int16_t* out, int pitch,
                   bool swap);

// In preprocessor_x86.cpp and preprocessor_neon.cpp; null where the machine lacks the instructions.
const RowKernels* sse41_kernels();
const RowKernels* avx2_kernels();
const RowKernels* neon_kernels();

}  // namespace headroom::inference
