// From candidates to detections: the shared end of every box detector.
#pragma once

#include <vector>

#include "inference/tasks/nms.h"
#include "inference/tasks/task_base.h"

namespace headroom::inference {

class DetectionCollector {
 public:
  DetectionCollector(const TaskOptions& options, std::int64_t most_candidates);

  float confidence() const { return confidence_; }
  void start() { candidates_.clear(); }
  // Takes a candidate unless a number in it is not finite.
  void add(const Candidate& candidate);
  // The kept candidates of the last suppress(), best first.
  std::span<const std::uint32_t> suppress() { return nms_.run(candidates_); }
  const Candidate& candidate(std::uint32_t index) const { return candidates_[index]; }
  // Suppresses and appends what is left, in pixels of the frame, clipped to it.
  void finish(const WayBack& way_back, FrameFindings& findings);

 private:
  float confidence_;
  std::vector<Candidate> candidates_;
  NonMaximumSuppression nms_;
};

bool is_finite(const Candidate& candidate);
Detection to_detection(const Candidate& candidate, const WayBack& way_back);
// Sets landmarks from x, y pairs in input pixels; none if one of them is not finite.
void set_landmarks(Detection& detection, std::span<const float> pixels, const WayBack& way_back);
// Box of centre and size.
Candidate from_centre(float x, float y, float width, float height, float score, std::int32_t class_id,
                      std::uint32_t anchor);
// The highest product of `objectness` and a class score, and the first class that has it; NaN never wins.
struct BestClass {
  std::int32_t id = 0;
  float score = 0;
};
BestClass best_class(const float* scores, std::int64_t count, float objectness);

}  // namespace headroom::inference
