// What the tracker keeps between frames, and its steps. tracker.cpp has the frame and the public interface;
// tracker_prompt.cpp, tracker_attention.cpp and tracker_decoder.cpp have the steps of a frame.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "inference/vos/contract.h"
#include "inference/vos/mask_rules.h"
#include "inference/vos/memory_bank.h"
#include "inference/vos/resize.h"
#include "inference/vos/tracker.h"

namespace headroom::inference::vos {

// Of a mask prompt: logits are -10 and 10, and so is the object score.
inline constexpr float kMaskScale = 20, kMaskBias = -10;
inline constexpr float kNoPoint = -1;  // label of no point

struct LabelledPoint {
  float x = 0, y = 0, label = kNoPoint;
};

struct ObjectState {
  std::vector<VosPrompt> pending{};
  std::optional<MemoryBank> bank{};  // made at the first frame, when the graphs' sizes are known
  Seen seen{};
  std::vector<float> logits{};
  BinaryMask mask{};
  bool is_tracked = false;  // it has had a prompt
  float score = kMaskBias;
};

// A row of a batch: the object, what the decoder said of it, and the token of its pointer.
struct BatchRow {
  std::size_t object = 0, pointer = 0;
};

// The memory that lies at a place of the attention's input, so that it is copied once only.
struct PlacedMemory {
  std::size_t object = std::numeric_limits<std::size_t>::max();
  std::int64_t frame = -1;
  friend bool operator==(const PlacedMemory&, const PlacedMemory&) = default;
};

// An error if the tensor has another shape.
Status check_dims(std::string_view name, const TensorView& tensor,
                  std::initializer_list<std::int64_t> wanted);

struct Tracker::State {
  ContractModel model;
  TrackerOptions options;

  // The video.
  int width = 0, height = 0;
  std::int64_t clip_frames = 0, last_frame = -1;
  std::size_t objects = 0;            // of this video: the first ones of `states`
  std::vector<ObjectState> states{};  // kept from video to video
  bool has_started = false, has_failed = false, can_trim = false;

  // Sizes that the graphs' outputs have shown.
  std::int64_t channels = 0, tokens = 0, depth = 0;
  ElementType memory_type = ElementType::bfloat16;

  // Scratch that is kept.
  HoleFiller holes{};
  MaskResizer resizer{};
  std::vector<PlacedMemory> placed{};
  std::vector<std::size_t> order{};
  std::vector<BatchRow> rows{};
  std::vector<float> mask_scratch{}, small_scratch{}, pointer_scratch{};
  std::vector<std::span<const float>> logit_spans{};
  std::vector<BinaryMask*> mask_pointers{};
  bool mask_input_is_zero = true;

  std::int64_t side() const { return model.side; }
  std::int64_t quarter() const { return model.side / 4; }
  std::size_t quarter_pixels() const { return static_cast<std::size_t>(quarter() * quarter()); }
  bool is_predictor() const { return options.profile == Profile::predictor; }

  // `image` has bytes, or `halves` has values; the other one is empty.
  Status step(std::int64_t frame, std::span<const std::uint8_t> image, std::span<const std::uint16_t> halves);
  Status encode(std::span<const std::uint8_t> image, std::span<const std::uint16_t> halves);
  Status run_encoder();
  Status forward_features(Graph& graph, std::size_t input, std::int64_t copies = 1);
  Status prompt_object(std::int64_t frame, std::size_t object, const VosPrompt& prompt);
  Status track_objects(std::int64_t frame);
  Status track_rows(std::int64_t frame, std::span<const std::size_t> chosen, std::int64_t count);
  Status attend(std::int64_t count);
  Status place_memories(std::int64_t count, std::int64_t memories);
  Status place_pointers(std::int64_t count, std::int64_t pointers);
  Status decode(std::span<const LabelledPoint> points, std::int64_t count,
                const std::vector<float>* mask_input, bool no_memory);
  void take_token(std::size_t row, int points, bool is_mask_prompt);
  Status remember(std::int64_t frame, bool is_prompt, std::int64_t count);
  std::vector<float> mask_prompt_logits(const BinaryMask& mask, std::vector<float>& mask_input,
                                        bool& is_any) const;
  std::vector<LabelledPoint> points_of(const VosPrompt& prompt) const;
  std::size_t most_prompts() const;
  void make_masks();
  Status trim();
};

}  // namespace headroom::inference::vos
