// What the memory figures of a run with --task vos say: growth per frame, and memory that a cleaning did not
// release, for each object, video or load of the model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "types/vos_run.h"

namespace headroom::bench {

// Memory of a clip, from frame to frame. At most kMostPoints are kept: when there are more, every second one
// is dropped.
class GrowthPoints {
 public:
  static constexpr std::size_t kMostPoints = 128;
  // Points before frame `first` are ignored: the memory bank is not full yet.
  explicit GrowthPoints(std::int64_t first = 0);
  // Whether a point of this frame would be kept. Reading memory costs time.
  bool wants(std::int64_t frame) const { return frame >= first_ && (frame - first_) % stride_ == 0; }
  void add(std::int64_t frame, Bytes bytes);
  // Absent with fewer than five points.
  std::optional<GrowthSlope> slope() const;

 private:
  std::int64_t first_, stride_ = 1;
  std::vector<double> frames_, bytes_;
};

// The first frame of a clip whose memory is compared: 15 pointers lie before it, so all rings are full.
inline constexpr std::int64_t kRingFull = 16;

// Fills the summary of a model's clips: per_frame, gpu_per_frame and leaks.
void add_growth(VosResult& result);

// The memory that this clip needs by the setup's trials: the peak with one object, plus what more objects
// added, plus the masks of the frame's size and the frames in memory. `is_gpu`: on the GPU. Absent if the
// trial did not report its peak.
struct ClipSize {
  int width = 0, height = 0;
  std::int64_t objects = 1;
  Bytes frames{};  // resident at a time
};
std::optional<Bytes> estimate_peak(const VosResult& trial, const ClipSize& clip, bool is_gpu);

}  // namespace headroom::bench
