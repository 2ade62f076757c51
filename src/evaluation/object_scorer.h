// The scores of one object, frame by frame, by one protocol. Holds two numbers a frame and no mask, so a clip
// of any length can be scored while it is tracked.
//
//   davis      all annotated frames but the first and the last (davis2017-evaluation, semi-supervised)
//   sav        the same, from the first frame in which truth or prediction has the object (sam2's
//              sav_dataset/utils/sav_benchmark.py)
//   reference  the reference benchmark's (VideoSegmentationComparison): all annotated frames, with its proxy
//              for F; a frame without prediction counts as 0
//
// A frame without prediction counts as an empty mask in the first two.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "evaluation/mask_metrics.h"
#include "types/vos.h"

namespace headroom::evaluation {

enum class Protocol { davis, sav, reference };
constexpr std::string_view name_of(Protocol protocol) {
  return name_in({"davis", "sav", "reference"}, protocol);
}

// Of values from 0 to 1, one a frame.
struct Statistics {
  double mean = 0;
  double recall = 0;  // share of frames above 0.5
  double decay = 0;   // mean of the first quarter minus mean of the last
};

// The statistics of at least one value. Quarters share their end frames: bounds are at
// round(linspace(1, n, 5) + 1e-10) - 1, as in davis2017-evaluation (utils.py, db_statistics).
Statistics statistics_of(const std::vector<double>& values);

struct ObjectScore {
  std::int64_t frames = 0;          // that count
  std::int64_t missing_frames = 0;  // of these, without prediction
  Statistics j{}, f{};
  double j_and_f() const { return (j.mean + f.mean) / 2; }
};

class ObjectScorer {
 public:
  explicit ObjectScorer(Protocol protocol) : protocol_(protocol) {}

  // The next annotated frame. `prediction` is null if there is none. Pixels are 0 or 1. Fails if the sizes
  // differ or a mask is incomplete.
  Status add(const BinaryMask& truth, const BinaryMask* prediction, MetricScratch& scratch);

  // The scores of all frames so far. Fails if no frame counts, if the truth is empty in all that do (sav), or
  // in the first (reference), whose benchmark skips such an object.
  Result<ObjectScore> score() const;

 private:
  struct Frame {
    double j = 0, f = 0;
    bool has_truth = false, has_prediction = false, is_missing = false;
  };
  void count(const Frame& frame);

  Protocol protocol_;
  std::int64_t added_ = 0, missing_ = 0;
  bool begins_empty_ = true, has_truth_ = false, has_begun_ = false;
  std::vector<double> j_{}, f_{};
  std::optional<Frame> last_{};  // counts only if another frame follows; not for reference
};

}  // namespace headroom::evaluation
