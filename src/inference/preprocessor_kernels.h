// The inner loops of pre-processing: one portable version and faster ones for x86 and NEON. All versions give
// the same numbers, because the arithmetic is OpenCV's fixed point (11-bit weights), which is exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace headroom::inference {

// For each output pixel of a row: its source pixel and the source pixel's right neighbour.
struct ColumnTaps {
  std::vector<std::int32_t> offset;   // bytes from the row's start to the left pixel (B, G, R)
  std::vector<std::int16_t> weights;  // left and right, in 1/2048; one pair per output pixel
  int width = 0;                      // output pixels
  int wide = 0;       // number of leading output pixels for which eight bytes may be read at `offset`
  int neighbour = 3;  // bytes from the left to the right pixel; 0 if the picture is one pixel wide
};

// Rows between the two steps hold level · 128, so 0..32640, in 16 bits.
struct RowKernels {
  std::string_view name;
  // Horizontal step: one row of BGR to three rows (blue, green, red), `plane` elements apart.
  void (*columns_to_planes)(const std::uint8_t* row, const ColumnTaps& taps, std::int16_t* out,
                            std::ptrdiff_t plane);
  // Horizontal step: one row of BGR to pixels of `pitch` (3 or 4) elements, as RGB if `swap`. The fourth
  // element is 0. Writes up to one element past the last pixel.
  void (*columns_to_pixels)(const std::uint8_t* row, const ColumnTaps& taps, std::int16_t* out, int pitch,
                            bool swap);
  // Vertical step: two such rows, with weights in 1/2048, to levels 0..255.
  void (*blend_to_levels)(const std::int16_t* top, const std::int16_t* bottom, int top_weight,
                          int bottom_weight, std::uint8_t* out, int n);
  // Vertical step, then (level − mean) · scale.
  void (*blend_to_float)(const std::int16_t* top, const std::int16_t* bottom, int top_weight,
                         int bottom_weight, float mean, float scale, float* out, int n);
};

const RowKernels& portable_kernels();
// All versions that this machine can run, the fastest last.
const std::vector<const RowKernels*>& available_kernels();

// The portable loops, starting at output pixel `first`. The vector versions use them for the end of a row.
void finish_planes(const std::uint8_t* row, const ColumnTaps& taps, int first, std::int16_t* out,
                   std::ptrdiff_t plane);
void finish_pixels(const std::uint8_t* row, const ColumnTaps& taps, int first, std::int16_t* out, int pitch,
                   bool swap);

// In preprocessor_x86.cpp and preprocessor_neon.cpp. Null if the machine lacks the instructions.
const RowKernels* sse41_kernels();
const RowKernels* avx2_kernels();
const RowKernels* neon_kernels();

}  // namespace headroom::inference
