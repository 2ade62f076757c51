#include "inference/tasks/detections.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace headroom::inference {
namespace {

// A vector type of GCC and Clang: SSE on x86, NEON on aarch64.
using FourFloats = float __attribute__((vector_size(16)));

FourFloats four_at(const float* from) {
  FourFloats four;
  std::memcpy(&four, from, sizeof four);
  return four;
}

float highest_of(const float* values, std::int64_t count) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  std::array<FourFloats, 4> highest;
  highest.fill(FourFloats{kLowest, kLowest, kLowest, kLowest});
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (std::size_t k = 0; k < 4; ++k) {
      const FourFloats four = four_at(values + i + 4 * k);
      highest[k] = four > highest[k] ? four : highest[k];
    }
  }
  float best = kLowest;
  for (; i < count; ++i) best = values[i] > best ? values[i] : best;
  for (const FourFloats& four : highest)
    for (std::size_t k = 0; k < 4; ++k) best = four[k] > best ? four[k] : best;
  return best;
}

}  // namespace

DetectionCollector::DetectionCollector(const TaskOptions& options, std::int64_t most_candidates)
    : confidence_(options.confidence), nms_(options.iou) {
  // Unused pages of the reservation are never touched (25,200 anchors: 0.6 MiB of address space).
  const auto n = static_cast<std::size_t>(std::clamp<std::int64_t>(most_candidates, 0, 1 << 20));
  candidates_.reserve(n);
  nms_.reserve(n);
}

void DetectionCollector::add(const Candidate& candidate) {
  if (is_finite(candidate)) candidates_.push_back(candidate);
}

void DetectionCollector::finish(const FrameMapping& to_frame, FrameFindings& findings) {
  findings.detections.reserve(NonMaximumSuppression::kMaximumKept);
  for (const std::uint32_t index : suppress())
    findings.detections.push_back(to_detection(candidates_[index], to_frame));
}

bool is_finite(const Candidate& candidate) {
  return std::isfinite(candidate.left) && std::isfinite(candidate.top) && std::isfinite(candidate.right) &&
         std::isfinite(candidate.bottom) && std::isfinite(candidate.score);
}

Detection to_detection(const Candidate& candidate, const FrameMapping& to_frame) {
  Detection detection;
  detection.left = to_frame.clamped_x(candidate.left);
  detection.top = to_frame.clamped_y(candidate.top);
  detection.right = to_frame.clamped_x(candidate.right);
  detection.bottom = to_frame.clamped_y(candidate.bottom);
  detection.score = candidate.score;
  detection.class_id = candidate.class_id;
  return detection;
}

void set_landmarks(Detection& detection, std::span<const float> pixels, const FrameMapping& to_frame) {
  if (pixels.size() > detection.landmarks.size()) return;
  for (std::size_t i = 0; i + 1 < pixels.size(); i += 2) {
    detection.landmarks[i] = to_frame.x(pixels[i]);
    detection.landmarks[i + 1] = to_frame.y(pixels[i + 1]);
  }
  const auto broken = [](float coordinate) { return !std::isfinite(coordinate); };
  if (std::any_of(detection.landmarks.begin(), detection.landmarks.end(), broken)) {
    detection.landmarks = {};
    return;
  }
  detection.landmark_count = static_cast<std::int32_t>(pixels.size() / 2);
}

Candidate from_centre(float x, float y, float width, float height, float score, std::int32_t class_id,
                      std::uint32_t anchor) {
  const float half_width = width / 2;
  const float half_height = height / 2;
  return {x - half_width, y - half_height, x + half_width, y + half_height, score, class_id, anchor};
}

// Keeps sixteen running maxima in vector registers, then searches for the position of the maximum. One
// running maximum with its index would depend on the previous step each time, and takes four times as
// long.
BestClass best_class(const float* scores, std::int64_t count, float objectness) {
  const float highest = highest_of(scores, count);
  // Rounding is monotonic, so the highest score gives the highest product. A lower class score may round
  // to the same product; then the first class wins.
  const float best = highest * objectness;
  for (std::int64_t i = 0; i < count; ++i)
    if (scores[i] * objectness == best) return {static_cast<std::int32_t>(i), best};
  return {0, 0};
}

}  // namespace headroom::inference
