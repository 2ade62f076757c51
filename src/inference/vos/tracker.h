// Tracks objects through a video with the four graphs of the contract headroom.vos=1
// (docs/video-segmentation.md): the algorithm of SAM2VideoPredictor (sam2/modeling/sam2_base.py,
// sam2/sam2_video_predictor.py), for SAM2, SAM2.1 and EdgeTAM. Works with every backend.
//
// Frames arrive in ascending order and are never kept. What is kept of the past is a ring of fixed size for
// each object (memory_bank.h), so memory does not depend on the length of a video.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "inference/backend.h"
#include "inference/vos/manifest.h"
#include "types/runtime_settings.h"
#include "types/tensor.h"
#include "types/vos.h"

namespace headroom::inference::vos {

// predictor: what build_sam2_video_predictor() makes. evaluation: what vos_inference.py makes for published
// scores: without the stability fallback, the binary mask of a prompt's memory, and the filling of holes.
enum class Profile { predictor, evaluation };
constexpr std::string_view name_of(Profile profile) { return name_in({"predictor", "evaluation"}, profile); }

struct TrackerOptions {
  Profile profile = Profile::predictor;
  // For DAVIS: in each pixel only the object with the highest logit remains (the first one of equals).
  bool non_overlap = false;
  // The most objects in one run of decoder, attention and memory encoder. A graph with a fixed batch decides
  // itself.
  int objects_per_run = 4;
  // Of the memory features in the bank: bfloat16, float16 or float32. Absent: the graphs' own 16-bit type,
  // otherwise bfloat16, as the reference.
  std::optional<ElementType> memory_type{};
};

struct TrackedObject {
  std::size_t index = 0;
  bool visible = false;  // its score is above 0
  float score = 0;       // object score (logit); of a mask prompt 10, as in the reference
};

class Tracker {
 public:
  // Opens the graphs of `model` (a folder with image_encoder.onnx …, or the manifest's file) with `backend`,
  // which must have started. Files of a known family are accepted too. Errors of ErrorKind::input: a file is
  // missing, or does not follow the contract.
  static Result<Tracker> load(Backend& backend, const std::filesystem::path& model,
                              const RuntimeSettings& settings, const TrackerOptions& options);
  Tracker(Tracker&&) noexcept;
  Tracker& operator=(Tracker&&) noexcept;
  ~Tracker();

  // Empty for graphs of the contract. Files of other projects (families.h) run for time and memory only: all
  // masks are empty, and the label says "not the reference algorithm: …".
  std::string label() const;
  const Manifest& manifest() const;
  int side() const;  // S: the input is S × S pixels

  // Begins a video of `frames` frames (0: unknown) of width × height pixels. Empties the bank and keeps its
  // memory, which grows only if `objects` or the number of prompted frames is larger than before.
  Status start_video(int width, int height, std::int64_t frames, std::size_t objects);
  // Registers a prompt for a frame that has not been stepped yet. It acts when that frame is stepped; before
  // its first prompt an object has an empty mask. A second prompt of the same object and frame replaces the
  // first.
  Status prompt(std::size_t object, const VosPrompt& prompt);
  // Tracks one frame: `image` is its RGB planes [3,S,S], bytes 0..255. Frames ascend; a frame may be left
  // out.
  Status step(std::int64_t frame, std::span<const std::uint8_t> image);
  // The same with (level / 255 - mean) / std in half precision, with the manifest's mean and std.
  Status step(std::int64_t frame, std::span<const std::uint16_t> halves);
  // After a step: the object's mask, of the frame's size.
  const BinaryMask& mask(std::size_t object) const;
  TrackedObject object(std::size_t object) const;
  // After a step: the object's logits [4h,4h] before the resize to the frame, with holes filled.
  std::span<const float> logits(std::size_t object) const;
  // Releases the sessions' cached memory.
  Status end_video();

  Bytes bank_bytes() const;     // memories and pointers of all objects
  Bytes scratch_bytes() const;  // the other buffers of the tracker

 private:
  struct State;
  struct FamilyState;
  Status step_checked(std::int64_t frame, std::span<const std::uint8_t> image,
                      std::span<const std::uint16_t> halves);
  Tracker(std::unique_ptr<State> state, std::unique_ptr<FamilyState> family);
  std::unique_ptr<State> state_;         // of graphs of the contract
  std::unique_ptr<FamilyState> family_;  // otherwise
};

}  // namespace headroom::inference::vos
