// Options and results of `headroom bench --task vos` (docs/bench-vos.md). Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "types/enum_names.h"
#include "types/vos.h"

namespace headroom {

// predictor: what SAM 2's video predictor does. evaluation: what its authors ran for published scores.
enum class VosProfile { predictor, evaluation };
constexpr std::string_view name_of(VosProfile profile) {
  return name_in({"predictor", "evaluation"}, profile);
}

// together: all objects of a video share one image encoding per frame. alone: one object after another, each
// through the whole video.
enum class VosObjects { together, alone };
constexpr std::string_view name_of(VosObjects objects) { return name_in({"together", "alone"}, objects); }

// How the setup phase stores frames: levels 0..255, or values with the model's mean and std applied, in half
// precision.
enum class PlaneType { uint8, fp16 };
constexpr std::string_view name_of(PlaneType type) { return name_in({"uint8", "fp16"}, type); }
constexpr std::int64_t bytes_of(PlaneType type) { return type == PlaneType::fp16 ? 2 : 1; }

struct VosOptions {
  std::string dataset;    // folder
  std::string prompts{};  // a prompts file; empty: the one in the folder, or prompts from the ground truth
  PromptKind prompt = PromptKind::points;  // of models without their own
  bool reference_point = false;            // the reference benchmark's point: the mean of the mask's pixels
  VosProfile profile = VosProfile::predictor;
  VosObjects objects = VosObjects::together;
  PlaneType planes = PlaneType::uint8;
  std::optional<std::int64_t> max_video_pixels{};  // larger videos are left out
  friend bool operator==(const VosOptions&, const VosOptions&) = default;
};

// Growth in bytes per step: Theil and Sen's slope with its 95 % interval.
struct GrowthSlope {
  double slope = 0, low = 0, high = 0;
  std::int64_t points = 0;
  friend bool operator==(const GrowthSlope&, const GrowthSlope&) = default;
};

// One pass through a video: of all its objects, or of one.
struct VosClip {
  std::string video, object{};  // object: only if it ran alone
  int width = 0, height = 0;
  std::int64_t frames = 0, objects = 0;
  std::optional<double> fps{};                // frames over the time of all steps
  std::optional<Bytes> peak{}, gpu_peak{};    // the kernel's high-water mark; the ledger's
  std::optional<Bytes> after{}, gpu_after{};  // anonymous memory, and the ledger's, after the cleaning
  std::optional<GrowthSlope> growth{}, gpu_growth{};  // per frame, once the memory bank is full
  friend bool operator==(const VosClip&, const VosClip&) = default;
};

// With objects together: memory after one object ran alone for a few frames, and was cleaned up.
struct VosObjectEnd {
  std::string video, object;
  std::optional<Bytes> after{}, gpu_after{};  // as of VosClip
  friend bool operator==(const VosObjectEnd&, const VosObjectEnd&) = default;
};

// The accuracy of one object: official J and F, and the reference benchmark's J and J&F.
struct VosObjectScore {
  std::string video, object;
  std::int64_t frames = 0;  // that were scored
  std::optional<double> j{}, f{}, j_and_f{};
  std::optional<double> reference_j{}, reference_j_and_f{};
  friend bool operator==(const VosObjectScore&, const VosObjectScore&) = default;
};

// Memory that a cleaning did not release, at least once for each object, video or load of the model.
struct VosLeak {
  std::string level;   // "frame", "object", "video" or "model"
  std::string memory;  // "host" or "gpu"
  GrowthSlope growth;  // bytes for each
  friend bool operator==(const VosLeak&, const VosLeak&) = default;
};

// The setup phase's run on blank frames of the model's size.
struct VosTrial {
  std::int64_t objects = 1;
  Bytes bank{};  // of all its objects
  std::optional<Bytes> peak{}, gpu_peak{};
  friend bool operator==(const VosTrial&, const VosTrial&) = default;
};

struct VosResult {
  PromptKind prompt = PromptKind::points;
  VosProfile profile = VosProfile::predictor;
  VosObjects objects = VosObjects::together;
  std::string label{};  // of files of other projects: "not the reference algorithm: …"
  int side = 0;         // of the model's square input
  std::vector<double> pixel_mean{}, pixel_std{};  // of the levels 0..1, in the model's manifest
  std::optional<Bytes> bank{};                    // memory bank of the largest clip
  std::vector<VosTrial> trials{};
  std::vector<VosClip> clips{};
  std::vector<std::size_t> unscored{};  // clips whose masks could not be written
  std::vector<VosObjectEnd> object_ends{};
  std::vector<Bytes> loads{}, gpu_loads{};  // after each unloading of the model, when it is loaded repeatedly
  std::vector<VosObjectScore> scores{};
  std::optional<double> j{}, f{}, j_and_f{}, reference_j{}, reference_j_and_f{};  // means over objects
  std::optional<GrowthSlope> per_frame{}, gpu_per_frame{};                        // of the longest clip
  std::vector<VosLeak> leaks{};
  std::vector<VosLeftOut> left_out{};  // videos that would not fit under the limit
  friend bool operator==(const VosResult&, const VosResult&) = default;
};

// The data set of a run.
struct VosSource {
  std::string folder;
  VosLayout layout = VosLayout::folder;
  friend bool operator==(const VosSource&, const VosSource&) = default;
};

}  // namespace headroom
