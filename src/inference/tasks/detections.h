// The last steps of every box detector: suppression of overlapping boxes, and the detections of a frame.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inference/tasks/task_base.h"

namespace headroom::inference {

// A box in pixels of the input, before suppression.
struct Candidate {
  float left = 0, top = 0, right = 0, bottom = 0;
  float score = 0;
  std::int32_t class_id = 0;
  std::uint32_t anchor = 0;  // index in the model's output (for landmarks, mask coefficients)
};

// Non-maximum suppression as in the YOLO family: an offset of 7680 pixels separates the classes; at most
// the best 30,000 candidates are considered and 300 boxes kept; a box is suppressed if IoU > threshold.
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

bool is_finite(const Candidate& candidate);
Detection to_detection(const Candidate& candidate, const FrameMapping& to_frame);

// Turns candidates into detections.
class DetectionCollector {
 public:
  DetectionCollector(const TaskOptions& options, std::int64_t most_candidates);

  float confidence() const { return confidence_; }
  void start() { candidates_.clear(); }
  // Adds a candidate, unless one of its numbers is not finite.
  void add(const Candidate& candidate);
  // Runs non-maximum suppression and appends the kept candidates as detections, best first, in frame pixels,
  // clipped to the frame. `complete` adds what else is known of a detection.
  template <class Complete>
  void finish(const FrameMapping& to_frame, FrameFindings& findings, const Complete& complete) {
    findings.detections.reserve(NonMaximumSuppression::kMaximumKept);
    for (const std::uint32_t index : nms_.run(candidates_)) {
      findings.detections.push_back(to_detection(candidates_[index], to_frame));
      complete(candidates_[index], findings.detections.back());
    }
  }

 private:
  float confidence_;
  std::vector<Candidate> candidates_;
  NonMaximumSuppression nms_;
};

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

// A task whose findings are boxes. `add_boxes` adds the candidates of a frame, and suppression chooses among
// them. `exact_padding`: boxes are mapped back with exactly half the letterbox's padding, not with the
// rounded padding of the picture.
using AddBoxes = std::function<void(std::span<const TensorView> outputs, DetectionCollector& boxes)>;
std::unique_ptr<Task> make_box_task(std::string_view name, const ImageInput& image,
                                    std::vector<std::string> class_names, const TaskOptions& options,
                                    std::int64_t most_candidates, AddBoxes add_boxes,
                                    bool exact_padding = false);

// True if the metadata declares this task, or no task. Ultralytics exports declare theirs ("detect",
// "segment", "pose", …); other exporters do not.
bool may_be_ultralytics(const ModelDescription& model, std::string_view task);
// The image input of a YOLO export: RGB/255, letterboxed with 114, sides a multiple of the exporter's
// stride.
std::optional<ImageInput> find_yolo_input(const ModelDescription& model, int image_size);

// Adds the boxes of a v8/11 head. `rows` is 4 + classes (+ more) rows of `anchors` values: centre x, y,
// width, height, then one score per class. Passes once over the scores, one tile of anchors at a time.
void add_v8_candidates(const float* rows, std::int64_t anchors, std::int64_t classes,
                       DetectionCollector& collector);

}  // namespace headroom::inference
