#include "inference/tasks/detections.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/text.h"

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

constexpr std::size_t kBlock = 16;        // boxes compared at once
constexpr std::uint32_t kDigitBits = 11;  // three passes over a 32-bit key
constexpr std::size_t kDigits = 1U << kDigitBits;

// A sort key that ascends while the score descends, for any finite float.
std::uint32_t descending_key(float score) {
  const auto bits = std::bit_cast<std::uint32_t>(score);
  const std::uint32_t ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return ~ascending;
}

// Anchors per tile: their running maxima (2 KiB) stay in the first-level cache while 80 rows stream
// through.
constexpr std::int64_t kAnchorTile = 256;

int stride_of(const ModelDescription& model) {
  const auto stride = parse_number<int>(trim(model.metadata_value("stride")));
  return stride && *stride > 0 && *stride <= 256 ? std::max(*stride, 32) : 32;
}

class BoxTask final : public TaskBase {
 public:
  BoxTask(std::string_view name, const ImageInput& image, std::vector<std::string> class_names,
          const TaskOptions& options, std::int64_t most_candidates, AddBoxes add_boxes, bool exact_padding)
      : TaskBase(name, image, std::move(class_names)),
        add_boxes_(std::move(add_boxes)),
        exact_padding_(exact_padding),
        collector_(options, most_candidates) {}

  void decode(std::span<const TensorView> outputs, const FrameTransform& transform,
              FrameFindings& findings) override {
    collector_.start();
    add_boxes_(outputs, collector_);
    FrameTransform used = transform;
    if (exact_padding_ && input().resize == Resize::letterbox) {
      const auto padding = [](int side, int frame_side, float scale) {
        return (static_cast<float>(side) - static_cast<float>(frame_side) * scale) / 2;
      };
      used.offset_x = padding(input().width, transform.frame_width, transform.scale_x);
      used.offset_y = padding(input().height, transform.frame_height, transform.scale_y);
    }
    collector_.finish(FrameMapping(used), findings, [](const Candidate&, Detection&) {});
  }

 private:
  AddBoxes add_boxes_;
  bool exact_padding_;
  DetectionCollector collector_;
};

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
  if (std::ranges::any_of(detection.landmarks, broken)) {
    detection.landmarks = {};
    return;
  }
  detection.landmark_count = static_cast<std::int32_t>(pixels.size() / 2);
}

Candidate from_centre(float x, float y, float width, float height, float score, std::int32_t class_id,
                      std::uint32_t anchor) {
  return {x - width / 2, y - height / 2, x + width / 2, y + height / 2, score, class_id, anchor};
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

// Algorithm. Candidates are radix-sorted by score. Then each one is compared with the boxes kept so far,
// at most 300, in arrays that the compiler turns into vector code. The loop stops when 300 boxes are kept.
//
// The result equals that of the usual loop, in which each kept box marks all later boxes that it overlaps:
// a candidate is compared with the same kept boxes. But the cost of the usual loop grows with the square
// of the candidates. IoU is computed on the offset boxes in float, as torchvision does, so that ties are
// resolved in the same way.

void NonMaximumSuppression::reserve(std::size_t candidates) {
  order_.reserve(candidates);
  order_scratch_.reserve(candidates);
  kept_.reserve(kMaximumKept);
}

void NonMaximumSuppression::sort_by_score(std::span<const Candidate> candidates) {
  const std::size_t n = candidates.size();
  order_.resize(n);
  order_scratch_.resize(n);
  std::array<std::array<std::uint32_t, kDigits>, 3> starts{};
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t key = descending_key(candidates[i].score);
    order_[i] = static_cast<std::uint64_t>(key) << 32 | i;
    for (std::uint32_t pass = 0; pass < 3; ++pass) ++starts[pass][key >> pass * kDigitBits & (kDigits - 1)];
  }
  for (std::uint32_t pass = 0; pass < 3; ++pass) {
    std::uint32_t sum = 0;
    for (std::uint32_t& start : starts[pass]) sum += std::exchange(start, sum);
    for (const std::uint64_t entry : order_) {
      const auto key = static_cast<std::uint32_t>(entry >> 32);
      order_scratch_[starts[pass][key >> pass * kDigitBits & (kDigits - 1)]++] = entry;
    }
    order_.swap(order_scratch_);
  }
}

bool NonMaximumSuppression::overlaps_kept(float left, float top, float right, float bottom,
                                          float area) const {
  for (std::size_t block = 0; block < kept_.size(); block += kBlock) {
    int hits = 0;
    for (std::size_t k = block; k < block + kBlock; ++k) {
      const float width = std::max(0.0F, std::min(right, boxes_.right[k]) - std::max(left, boxes_.left[k]));
      const float height = std::max(0.0F, std::min(bottom, boxes_.bottom[k]) - std::max(top, boxes_.top[k]));
      const float shared = width * height;
      hits += shared / (area + boxes_.area[k] - shared) > threshold_ ? 1 : 0;
    }
    if (hits != 0) return true;
  }
  return false;
}

void NonMaximumSuppression::keep(float left, float top, float right, float bottom, float area,
                                 std::uint32_t index) {
  const std::size_t k = kept_.size();
  boxes_.left[k] = left;
  boxes_.top[k] = top;
  boxes_.right[k] = right;
  boxes_.bottom[k] = bottom;
  boxes_.area[k] = area;
  kept_.push_back(index);
}

std::span<const std::uint32_t> NonMaximumSuppression::run(std::span<const Candidate> candidates) {
  sort_by_score(candidates);
  kept_.clear();
  boxes_ = {};
  const std::size_t considered = std::min(order_.size(), kMaximumCandidates);
  for (std::size_t i = 0; i < considered && kept_.size() < kMaximumKept; ++i) {
    const auto index = static_cast<std::uint32_t>(order_[i]);
    const Candidate& box = candidates[index];
    const float offset = static_cast<float>(box.class_id) * kClassOffset;
    const float left = box.left + offset;
    const float top = box.top + offset;
    const float right = box.right + offset;
    const float bottom = box.bottom + offset;
    const float area = (right - left) * (bottom - top);
    if (!overlaps_kept(left, top, right, bottom, area)) keep(left, top, right, bottom, area, index);
  }
  return kept_;
}

bool may_be_ultralytics(const ModelDescription& model, std::string_view task) {
  const std::string declared = model.metadata_value("task");
  return declared.empty() || declared == task;
}

std::optional<ImageInput> find_yolo_input(const ModelDescription& model, int image_size) {
  auto image = find_image_input(model, image_size, stride_of(model));
  if (image && image->spec.channels == ChannelOrder::rgba) return std::nullopt;
  return image;
}

void add_v8_candidates(const float* rows, std::int64_t anchors, std::int64_t classes,
                       DetectionCollector& collector) {
  const float* const scores = rows + 4 * anchors;
  const float confidence = collector.confidence();
  std::array<float, kAnchorTile> best;
  std::array<std::int32_t, kAnchorTile> best_id;
  for (std::int64_t start = 0; start < anchors; start += kAnchorTile) {
    const std::int64_t n = std::min(kAnchorTile, anchors - start);
    best.fill(confidence);
    best_id.fill(-1);
    for (std::int64_t c = 0; c < classes; ++c) {
      const float* row = scores + c * anchors + start;
      const auto id = static_cast<std::int32_t>(c);
      for (std::int64_t i = 0; i < n; ++i) {
        const bool better = row[i] > best[i];
        best[i] = better ? row[i] : best[i];
        best_id[i] = better ? id : best_id[i];
      }
    }
    for (std::int64_t i = 0; i < n; ++i) {
      if (best_id[i] < 0) continue;
      const float* box = rows + start + i;
      collector.add(from_centre(box[0], box[anchors], box[2 * anchors], box[3 * anchors], best[i], best_id[i],
                                static_cast<std::uint32_t>(start + i)));
    }
  }
}

std::unique_ptr<Task> make_box_task(std::string_view name, const ImageInput& image,
                                    std::vector<std::string> class_names, const TaskOptions& options,
                                    std::int64_t most_candidates, AddBoxes add_boxes, bool exact_padding) {
  return std::make_unique<BoxTask>(name, image, std::move(class_names), options, most_candidates,
                                   std::move(add_boxes), exact_padding);
}

}  // namespace headroom::inference
