// Converts a decoded frame into an input tensor, in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "inference/task.h"

namespace headroom::inference {

// The inner loops of pre-processing have one portable version and faster ones for x86 and NEON. All versions
// give the same numbers, because the arithmetic is OpenCV's fixed point (11-bit weights), which is exact.
//
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

// All versions that this machine can run, the fastest last.
const std::vector<const RowKernels*>& available_kernels();

// Position of a frame of this size inside the model's input. Letterboxes follow ultralytics (round half to
// even, padding split as round(d/2 ∓ 0.1)). The top-left letterbox follows YOLOX (sides truncated).
struct Placement {
  int x = 0, y = 0, width = 0, height = 0;  // the resized frame, in input pixels
  FrameTransform transform;
};
Placement place_frame(const InputSpec& spec, int frame_width, int frame_height);

// Resizes (bilinear; same results as OpenCV's INTER_LINEAR on 8 bits), pads, normalises and converts the
// layout in one pass over the frame. Create one object per input size. run() never allocates, for any frame
// size.
class Preprocessor {
 public:
  // Uses the fastest kernels of this machine, unless `kernels` is given.
  explicit Preprocessor(const InputSpec& spec, const RowKernels* kernels = nullptr);
  Preprocessor(Preprocessor&&) noexcept;
  Preprocessor& operator=(Preprocessor&&) noexcept;
  ~Preprocessor();
  // `bgr`: height rows of `stride` bytes, 8-bit BGR. `destination`: width·height·channels elements of
  // spec.type. Returns the frame's position in the input.
  FrameTransform run(const std::uint8_t* bgr, int width, int height, std::size_t stride, void* destination);

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace headroom::inference
