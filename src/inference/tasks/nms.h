// Non-maximum suppression with the definitions of the YOLO family: classes kept apart by an offset of 7680
// pixels, the best 30,000 candidates, at most 300 boxes, suppression at IoU > threshold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headroom::inference {

// A box in pixels of the input, before suppression.
struct Candidate {
  float left = 0, top = 0, right = 0, bottom = 0;
  float score = 0;
  std::int32_t class_id = 0;
  std::uint32_t anchor = 0;  // where it stands in the model's output (landmarks, mask coefficients)
};

class NonMaximumSuppression {
 public:
  static constexpr float kClassOffset = 7680;
  static constexpr std::size_t kMaximumCandidates = 30000;
  static constexpr std::size_t kMaximumKept = 300;

  explicit NonMaximumSuppression(float iou_threshold) : threshold_(iou_threshold) {}
  // Takes the memory for this many candidates now, so that run() allocates nothing up to there.
  void reserve(std::size_t candidates);
  // Indices of the kept candidates, best first; equal scores in the order of the candidates. Scores are
  // finite. The span is valid until the next run.
  std::span<const std::uint32_t> run(std::span<const Candidate> candidates);

 private:
  struct KeptBoxes {
    // Structure of arrays, padded to whole blocks with boxes that overlap nothing.
    alignas(64) float left[kMaximumKept + 16], top[kMaximumKept + 16], right[kMaximumKept + 16],
        bottom[kMaximumKept + 16], area[kMaximumKept + 16];
  };
  void sort_by_score(std::span<const Candidate> candidates);
  bool overlaps_kept(float left, float top, float right, float bottom, float area) const;
  void keep(float left, float top, float right, float bottom, float area, std::uint32_t index);

  float threshold_;
  std::vector<std::uint64_t> order_, order_scratch_;  // score key above, index below
  std::vector<std::uint32_t> kept_;
  KeptBoxes boxes_{};
};

}  // namespace headroom::inference
