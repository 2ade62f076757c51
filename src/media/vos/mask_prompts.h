// Prompts that are made from the ground truth of an object's first frame.
#pragma once

#include <cstdint>
#include <optional>

#include "types/vos.h"

namespace headroom::media::vos {

enum class PointRule {
  inside,     // the pixel of the object that is farthest from all pixels outside
  reference,  // the reference benchmark's: the truncated mean of the pixels, which may lie outside
};
constexpr std::string_view name_of(PointRule rule) { return name_in({"inside", "reference"}, rule); }

// The pixel of the mask with the largest Euclidean distance to the outside; the picture's border counts as
// outside. Of equal ones, the first row by row. Nothing if the mask is empty.
// Time and memory grow with the area of the mask's box (exact distances in two passes: Felzenszwalb and
// Huttenlocher, Distance Transforms of Sampled Functions, 2012).
std::optional<PromptPoint> inner_point(const BinaryMask& mask);

// The point of the reference benchmark (VideoSegmentationComparison, sav_benchmark/prompts.py): int(mean x),
// int(mean y) of the mask, or of its first 4-connected component, row by row, if it has several.
std::optional<PromptPoint> reference_point(const BinaryMask& mask);

// From the first to the last column and row of the mask. Nothing if the mask is empty.
std::optional<PromptBox> box_of(const BinaryMask& mask);

// A prompt of this kind: one positive point by the rule, the box, or the mask itself. Nothing if the mask is
// empty.
std::optional<VosPrompt> prompt_from_mask(const BinaryMask& mask, PromptKind kind, PointRule rule,
                                          std::int64_t frame);

}  // namespace headroom::media::vos
