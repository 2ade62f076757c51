// Non-maximum suppression as in the YOLO family: an offset of 7680 pixels separates the classes; at most
// the best 30,000 candidates are considered and 300 boxes kept; a box is suppressed if IoU > threshold.
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
  std::uint32_t anchor = 0;  // index in the model's output (for landmarks, mask coefficients)
};

class NonMaximumSuppression {
 public:
  static constexpr float kClassOffset = 7680;
  static constexpr std::size_t kMaximumCandidates = 30000;
  static constexpr std::size_t kMaximumKept = 300;

  explicit NonMaximumSuppression(float iou_threshold) : threshold_(iou_threshold) {}
  // Allocates memory for this many candidates, so that run() does not allocate up to this number.
  void reserve(std::size_t candidates);
  // Returns the indices of the kept candidates, best first; candidates with equal scores keep their order.
  // All scores must be finite. The span is valid until the next run().
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
  std::vector<std::uint64_t> order_, order_scratch_;  // score key in the upper half, index in the lower half
  std::vector<std::uint32_t> kept_;
  KeptBoxes boxes_{};
};

}  // namespace headroom::inference
