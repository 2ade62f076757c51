// Resizes of logits and masks with the conventions of torch.nn.functional.interpolate(mode="bilinear",
// align_corners=False): pixel centres lie at i + 0.5.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "types/vos.h"

namespace headroom::inference::vos {

// From logits of one size to masks of another one, without antialiasing, as for the final masks. Made once
// for a video; its functions allocate nothing.
class MaskResizer {
 public:
  MaskResizer() = default;
  MaskResizer(int from_width, int from_height, int to_width, int to_height, std::size_t objects);
  // Pixels whose interpolated logit is above 0. `mask` has the size to_width × to_height.
  void resize(std::span<const float> logits, BinaryMask& mask);
  // The same for all objects together: a pixel belongs at most to the object with the highest logit (the
  // first of equals). An object without logits (an empty span) has no pixels.
  void resize_without_overlap(std::span<const std::span<const float>> logits,
                              std::span<BinaryMask* const> masks);
  std::size_t bytes() const;

 private:
  struct Tap {
    std::int32_t first = 0, second = 0;
    float weight = 0;  // of the second
  };
  static std::vector<Tap> taps(int from, int to);
  // Of one object: the two rows of logits that the current row of the mask lies between, at the mask's width.
  struct Lines {
    std::int32_t top = -1, bottom = -1;  // which rows these are
    std::vector<float> above, below, row;
  };
  // Columns of the mask.
  struct Range {
    std::size_t begin = 0, end = 0;
  };
  Range find_inside(std::span<const float> logits);
  void widen(std::span<const float> logits, std::int32_t row, Range range, std::vector<float>& out) const;
  void widen_rows(std::span<const float> logits, const Tap& vertical, Range range, Lines& lines) const;

  int from_width_ = 0;
  std::vector<std::uint8_t> has_inside_;  // of each row of logits: whether one is above 0
  std::vector<Tap> columns_, rows_;
  std::vector<Lines> lines_;  // of each object
};

// With antialias=True: each output pixel is the average of the input below a triangle as wide as two steps of
// the output. For mask prompts.
std::vector<float> resize_antialiased(std::span<const float> from, int from_width, int from_height,
                                      int to_width, int to_height);

}  // namespace headroom::inference::vos
