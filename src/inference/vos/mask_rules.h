// What the tracker decides about masks: which of the decoder's four it takes, and which holes it fills. The
// rules are those of sam2 (sam2/modeling/sam/mask_decoder.py, sam2_base.py, utils/misc.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "inference/vos/manifest.h"

namespace headroom::inference::vos {

// The mask of an object that is not in the frame.
inline constexpr float kNoObjectLogit = -1024;

// Which of the decoder's tokens (0: the single mask, 1..3: the multi-mask ones) gives the mask, and which the
// object pointer.
struct TokenChoice {
  std::size_t mask = 0, pointer = 0;
};

// `single`: the logits of token 0; `ious`: the scores of all four. `points`: of the prompt, where a box is
// two and a tracked frame has none. With `stability_fallback`, an unstable single mask is replaced; the
// pointer stays that of token 0.
TokenChoice choose_token(std::span<const float> single, std::span<const float> ious, int points,
                         const Manifest& manifest, bool stability_fallback);

// Pixels above delta, divided by pixels above -delta; 1 if there are none.
float stability_score(std::span<const float> logits, float delta);

// Fills holes: 8-connected components of logits <= 0 with at most `largest_hole` pixels become 0.1. Also a
// component at the border of the picture is a hole.
class HoleFiller {
 public:
  static constexpr float kFilled = 0.1F;
  // Allocates only for a picture with more runs of background than any before.
  void fill(std::span<float> logits, int width, int height, int largest_hole = 8);
  std::size_t bytes() const { return runs_.capacity() * sizeof(Run); }

 private:
  // Neighbouring background pixels of a row: from begin to before end. Runs that touch are joined to a
  // component, whose first run holds its area.
  struct Run {
    std::int32_t begin = 0, end = 0;
    std::int32_t parent = 0, area = 0;
  };
  std::int32_t root_of(std::int32_t run);
  void join(std::int32_t a, std::int32_t b);
  std::vector<Run> runs_;
};

}  // namespace headroom::inference::vos
