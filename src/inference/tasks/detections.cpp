#include "inference/tasks/detections.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace headroom::inference {

DetectionCollector::DetectionCollector(const TaskOptions& options, std::int64_t most_candidates)
    : confidence_(options.confidence), nms_(options.iou) {
  // Address space only: pages that no frame fills are never touched.
  const auto n = static_cast<std::size_t>(std::clamp<std::int64_t>(most_candidates, 0, 1 << 20));
  candidates_.reserve(n);
  nms_.reserve(n);
}

void DetectionCollector::add(const Candidate& candidate) {
  if (is_finite(candidate)) candidates_.push_back(candidate);
}

void DetectionCollector::finish(const WayBack& way_back, FrameFindings& findings) {
  findings.detections.reserve(NonMaximumSuppression::kMaximumKept);
  for (const std::uint32_t index : suppress())
    findings.detections.push_back(to_detection(candidates_[index], way_back));
}

bool is_finite(const Candidate& candidate) {
  return std::isfinite(candidate.left) && std::isfinite(candidate.top) && std::isfinite(candidate.right) &&
         std::isfinite(candidate.bottom) && std::isfinite(candidate.score);
}

Detection to_detection(const Candidate& candidate, const WayBack& way_back) {
  Detection detection;
  detection.left = way_back.clamped_x(candidate.left);
  detection.top = way_back.clamped_y(candidate.top);
  detection.right = way_back.clamped_x(candidate.right);
  detection.bottom = way_back.clamped_y(candidate.bottom);
  detection.score = candidate.score;
  detection.class_id = candidate.class_id;
  return detection;
}

void set_landmarks(Detection& detection, std::span<const float> pixels, const WayBack& way_back) {
  if (pixels.size() > detection.landmarks.size()) return;
  for (const float pixel : pixels)
    if (!std::isfinite(pixel)) return;
  for (std::size_t i = 0; i + 1 < pixels.size(); i += 2) {
    detection.landmarks[i] = way_back.x(pixels[i]);
    detection.landmarks[i + 1] = way_back.y(pixels[i + 1]);
  }
  detection.landmark_count = static_cast<std::int32_t>(pixels.size() / 2);
}

Candidate from_centre(float x, float y, float width, float height, float score, std::int32_t class_id,
                      std::uint32_t anchor) {
  const float half_width = width / 2;
  const float half_height = height / 2;
  return {x - half_width, y - half_height, x + half_width, y + half_height, score, class_id, anchor};
}

// Sixteen running maxima, which the compiler keeps in vector registers, then a search for where the maximum
// was: four times as fast as one running maximum with its index, whose every step waits for the last.
BestClass best_class(const float* scores, std::int64_t count, float objectness) {
  constexpr std::int64_t kLanes = 16;
  std::array<float, kLanes> highest;
  highest.fill(-std::numeric_limits<float>::infinity());
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t k = 0; k < kLanes; ++k)
      highest[k] = scores[i + k] > highest[k] ? scores[i + k] : highest[k];
  for (; i < count; ++i) highest[0] = scores[i] > highest[0] ? scores[i] : highest[0];
  // Rounding keeps the order, so the product with the highest score is the highest product; a lower class may
  // round to the same.
  const float best = *std::max_element(highest.begin(), highest.end()) * objectness;
  for (i = 0; i + kLanes <= count; i += kLanes) {
    int hits = 0;
    for (std::int64_t k = 0; k < kLanes; ++k) hits += scores[i + k] * objectness == best ? 1 : 0;
    if (hits != 0) break;
  }
  for (; i < count; ++i)
    if (scores[i] * objectness == best) return {static_cast<std::int32_t>(i), best};
  return {0, 0};
}

}  // namespace headroom::inference
