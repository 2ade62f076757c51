// Turns candidates into detections; the last step of every box detector.
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
  // Adds a candidate, unless one of its numbers is not finite.
  void add(const Candidate& candidate);
  // Runs non-maximum suppression and returns the indices of the kept candidates, best first.
  std::span<const std::uint32_t> suppress() { return nms_.run(candidates_); }
  const Candidate& candidate(std::uint32_t index) const { return candidates_[index]; }
  // Runs suppression and appends the kept candidates as detections, in frame pixels, clipped to the frame.
  void finish(const FrameMapping& to_frame, FrameFindings& findings);

 private:
  float confidence_;
  std::vector<Candidate> candidates_;
  NonMaximumSuppression nms_;
};

bool is_finite(const Candidate& candidate);
Detection to_detection(const Candidate& candidate, const FrameMapping& to_frame);
// Sets the landmarks from x, y pairs in input pixels. Sets none if a number is not finite.
void set_landmarks(Detection& detection, std::span<const float> pixels, const FrameMapping& to_frame);
// Makes a box from its centre and size.
Candidate from_centre(float x, float y, float width, float height, float score, std::int32_t class_id,
                      std::uint32_t anchor);
// The highest product of `objectness` and a class score, and the first class with that product. Ignores
// NaN.
struct BestClass {
  std::int32_t id = 0;
  float score = 0;
};
BestClass best_class(const float* scores, std::int64_t count, float objectness);

}  // namespace headroom::inference
