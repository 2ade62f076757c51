// From a decoded frame to an input tensor, in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "inference/task.h"

namespace headroom::inference {

// Resizes (bilinear, as OpenCV's INTER_LINEAR), pads, normalises and changes the layout in one pass over the
// frame. Made once per input size; run() allocates only when the frame's size changes.
class Preprocessor {
 public:
  explicit Preprocessor(const InputSpec& spec);
  // `bgr`: height rows of `stride` bytes, 8-bit BGR. `destination`: width·height·channels elements of
  // spec.type. Returns where the frame lies in the input.
  FrameTransform run(const std::uint8_t* bgr, int width, int height, std::size_t stride, void* destination);

 private:
  struct Plan;
  InputSpec spec_;
  std::shared_ptr<Plan> plan_;
};

}  // namespace headroom::inference
