// Converts a decoded frame into an input tensor, in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "inference/task.h"

namespace headroom::inference {

struct RowKernels;

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
  // Uses the fastest kernels of this machine, unless `kernels` is given (preprocessor_kernels.h).
  explicit Preprocessor(const InputSpec& spec, const RowKernels* kernels = nullptr);
  Preprocessor(Preprocessor&&) noexcept;
  Preprocessor& operator=(Preprocessor&&) noexcept;
  ~Preprocessor();
  // `bgr`: height rows of `stride` bytes, 8-bit BGR. `destination`: width·height·channels elements of
  // spec.type. Returns the frame's position in the input.
  FrameTransform run(const std::uint8_t* bgr, int width, int height, std::size_t stride, void* destination);

 private:
  struct Plan;
  InputSpec spec_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace headroom::inference
