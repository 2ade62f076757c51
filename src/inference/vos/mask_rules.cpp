#include "inference/vos/mask_rules.h"

#include <algorithm>

namespace headroom::inference::vos {

float stability_score(std::span<const float> logits, float delta) {
  std::int64_t inner = 0, outer = 0;
  for (const float logit : logits) {
    inner += logit > delta ? 1 : 0;
    outer += logit > -delta ? 1 : 0;
  }
  return outer == 0 ? 1.0F : static_cast<float>(inner) / static_cast<float>(outer);
}

TokenChoice choose_token(std::span<const float> single, std::span<const float> ious, int points,
                         const Manifest& manifest, bool stability_fallback) {
  const auto best = static_cast<std::size_t>(std::max_element(ious.begin() + 1, ious.end()) - ious.begin());
  if (points >= manifest.multimask_min_points && points <= manifest.multimask_max_points) return {best, best};
  const bool is_stable = !stability_fallback ||
                         stability_score(single, manifest.stability_delta) >= manifest.stability_threshold;
  return {is_stable ? 0 : best, 0};
}

std::int32_t HoleFiller::root_of(std::int32_t run) {
  while (runs_[static_cast<std::size_t>(run)].parent != run) {
    Run& here = runs_[static_cast<std::size_t>(run)];
    here.parent = runs_[static_cast<std::size_t>(here.parent)].parent;
    run = here.parent;
  }
  return run;
}

void HoleFiller::join(std::int32_t a, std::int32_t b) {
  a = root_of(a);
  b = root_of(b);
  if (a == b) return;
  const auto [first, second] = std::minmax(a, b);
  runs_[static_cast<std::size_t>(second)].parent = first;
  runs_[static_cast<std::size_t>(first)].area += runs_[static_cast<std::size_t>(second)].area;
}

void HoleFiller::fill(std::span<float> logits, int width, int height, int largest_hole) {
  runs_.clear();
  std::size_t above = 0, above_end = 0;  // runs of the row above
  for (std::int32_t row = 0; row < width * height; row += width) {
    const std::size_t first_of_row = runs_.size();
    for (std::int32_t at = row; at < row + width;) {
      if (logits[static_cast<std::size_t>(at)] > 0) {
        ++at;
        continue;
      }
      const std::int32_t begin = at;
      while (at < row + width && !(logits[static_cast<std::size_t>(at)] > 0)) ++at;
      const auto run = static_cast<std::int32_t>(runs_.size());
      runs_.push_back({begin, at, run, at - begin});
      // A run above touches this one if it reaches the columns from one before it to one after it.
      while (above < above_end && runs_[above].end + width < begin) ++above;
      for (std::size_t other = above; other < above_end && runs_[other].begin + width <= at; ++other)
        join(run, static_cast<std::int32_t>(other));
    }
    above = first_of_row;
    above_end = runs_.size();
  }
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    const std::int32_t root = root_of(static_cast<std::int32_t>(run));
    if (runs_[static_cast<std::size_t>(root)].area > largest_hole) continue;
    std::fill(logits.begin() + runs_[run].begin, logits.begin() + runs_[run].end, kFilled);
  }
}

}  // namespace headroom::inference::vos
