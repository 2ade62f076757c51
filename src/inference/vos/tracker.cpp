#include "inference/vos/tracker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "inference/vos/contract.h"
#include "inference/vos/families.h"
#include "inference/vos/mask_rules.h"
#include "inference/vos/memory_bank.h"
#include "inference/vos/resize.h"
#include "inference/vos/small_floats.h"

namespace headroom::inference::vos {
namespace {

constexpr int kLevels = 256, kChannels = 3;
// Of a mask prompt: logits are -10 and 10, and so is the object score.
constexpr float kMaskScale = 20, kMaskBias = -10;
constexpr float kNoPoint = -1, kNegative = 0, kPositive = 1, kBoxLeftTop = 2, kBoxRightBottom = 3;

struct Point {
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
struct Row {
  std::size_t object = 0, pointer = 0;
};

// The memory that lies at a place of the attention's input, so that it is copied once only.
struct Placed {
  std::size_t object = std::numeric_limits<std::size_t>::max();
  std::int64_t frame = -1;
  friend bool operator==(const Placed&, const Placed&) = default;
};

// A row of a tensor as floats: a part of the tensor itself, or a copy in `scratch`.
std::span<const float> floats_of(const TensorView& tensor, std::size_t first, std::size_t count,
                                 std::vector<float>& scratch) {
  if (tensor.type == ElementType::float32) return {tensor.as_float() + first, count};
  scratch.resize(count);
  convert(static_cast<const std::byte*>(tensor.data) + first * size_of(tensor.type), tensor.type,
          scratch.data(), ElementType::float32, count);
  return scratch;
}

Status check_dims(std::string_view name, const TensorView& tensor,
                  std::initializer_list<std::int64_t> wanted) {
  if (std::equal(wanted.begin(), wanted.end(), tensor.dims, tensor.dims + tensor.rank)) return {};
  return failure(fmt::format("the graphs do not follow {}", kContract),
                 fmt::format("'{}' has the shape [{}] instead of [{}]", name,
                             fmt::join(tensor.dims, tensor.dims + tensor.rank, ","), fmt::join(wanted, ",")));
}

}  // namespace

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

  // Scratch that is kept.
  HoleFiller holes{};
  MaskResizer resizer{};
  std::vector<Placed> placed{};
  std::vector<std::size_t> order{};
  std::vector<Row> rows{};
  std::vector<float> mask_scratch{}, small_scratch{}, pointer_scratch{};
  std::vector<std::span<const float>> logit_spans{};
  std::vector<BinaryMask*> mask_pointers{};
  bool mask_input_is_zero = true;

  std::int64_t side() const { return model.side; }
  std::int64_t quarter() const { return model.side / 4; }
  std::size_t quarter_pixels() const { return static_cast<std::size_t>(quarter() * quarter()); }
  bool is_predictor() const { return options.profile == Profile::predictor; }

  Status step(std::int64_t frame, std::span<const std::uint8_t> image);
  Status encode(std::span<const std::uint8_t> image);
  Status forward_features(Graph& graph, std::size_t input, std::int64_t copies = 1);
  Status prompt_object(std::int64_t frame, std::size_t object, const VosPrompt& prompt);
  Status track_objects(std::int64_t frame);
  Status track_rows(std::int64_t frame, std::span<const std::size_t> chosen, std::int64_t count);
  Status attend(std::int64_t count);
  Status place_memories(std::int64_t count, std::int64_t memories);
  Status place_pointers(std::int64_t count, std::int64_t pointers);
  Status decode(std::span<const Point> points, std::int64_t count, const std::vector<float>* mask_input,
                bool no_memory);
  void take_token(std::size_t row, int points, bool is_mask_prompt);
  Status remember(std::int64_t frame, bool is_prompt, std::int64_t count);
  std::vector<float> mask_prompt_logits(const BinaryMask& mask, std::vector<float>& mask_input,
                                        bool& is_any) const;
  std::vector<Point> points_of(const VosPrompt& prompt) const;
  std::size_t most_prompts() const;
  void make_masks();
  Status trim();
};

// --- One frame
// -------------------------------------------------------------------------------------------------

Status Tracker::State::step(std::int64_t frame, std::span<const std::uint8_t> image) {
  for (std::size_t i = 0; i < objects; ++i) {
    const auto& pending = states[i].pending;
    if (!pending.empty() && pending.front().frame < frame)
      return failure(
          fmt::format("cannot track frame {}", frame),
          fmt::format("object {} has a prompt for frame {}, which was left out", i, pending.front().frame));
  }
  last_frame = frame;
  const auto has_prompt = [&](const ObjectState& state) {
    return !state.pending.empty() && state.pending.front().frame == frame;
  };
  const bool has_work =
      std::any_of(states.begin(), states.begin() + static_cast<std::ptrdiff_t>(objects),
                  [&](const ObjectState& state) { return state.is_tracked || has_prompt(state); });
  if (has_work) {
    if (auto status = encode(image); !status) return status;
    order.clear();
    for (std::size_t i = 0; i < objects; ++i) {
      ObjectState& state = states[i];
      if (!has_prompt(state)) {
        if (state.is_tracked) order.push_back(i);
        continue;
      }
      const VosPrompt prompt = std::move(state.pending.front());
      state.pending.erase(state.pending.begin());
      if (auto status = prompt_object(frame, i, prompt); !status) return status;
      state.is_tracked = true;
    }
    if (auto status = track_objects(frame); !status) return status;
    can_trim = true;
  }
  make_masks();
  return {};
}

Status Tracker::State::encode(std::span<const std::uint8_t> image) {
  Graph& graph = model.encoder;
  const std::size_t input = model.encoder_inputs.image;
  if (auto shaped = graph.shape_input(input, {1, kChannels, side(), side()}); !shaped)
    return forward_error(shaped);
  const ElementType type = graph.input(input).type;
  if (!is_float(type))
    return failure("cannot give the picture to the image encoder", graph.input(input).describe());
  const std::size_t plane = image.size() / kChannels;
  for (std::size_t c = 0; c < kChannels; ++c) {
    const float mean = model.manifest.mean[c], deviation = model.manifest.std[c];
    const auto normal = [=](std::uint8_t level) {
      return (static_cast<float>(level) / 255 - mean) / deviation;
    };
    std::byte* out = graph.buffer(input) + c * plane * size_of(type);
    const auto from = image.subspan(c * plane, plane);
    if (type == ElementType::float32) {
      std::ranges::transform(from, reinterpret_cast<float*>(out), normal);
      continue;
    }
    std::array<float, kLevels> levels{};
    for (std::size_t level = 0; level < kLevels; ++level)
      levels[level] = normal(static_cast<std::uint8_t>(level));
    std::array<std::uint16_t, kLevels> table{};
    convert(levels.data(), ElementType::float32, table.data(), type, levels.size());
    std::ranges::transform(from, reinterpret_cast<std::uint16_t*>(out),
                           [&](std::uint8_t level) { return table[level]; });
  }
  if (auto status = graph.run(); !status) return status;
  auto embed = graph.output_shape("image_embed", 0);
  if (!embed) return forward_error(embed);
  channels = embed->dim(1);
  return check_dims("image_embed", *embed, {1, channels, side() / 16, side() / 16});
}

// Gives the picture's features to a graph. They stay on the device, unless the graphs have a fixed number of
// objects, which needs copies of them.
Status Tracker::State::forward_features(Graph& graph, std::size_t input, std::int64_t copies) {
  const bool may_link = model.may_link && model.fixed.objects.value_or(1) == 1;
  return graph.forward(input, model.encoder, "image_embed", 0, may_link, copies);
}

// --- A prompt frame
// --------------------------------------------------------------------------------------------

std::vector<Point> Tracker::State::points_of(const VosPrompt& prompt) const {
  const float x_scale = static_cast<float>(side()) / static_cast<float>(width);
  const float y_scale = static_cast<float>(side()) / static_cast<float>(height);
  std::vector<Point> points;
  if (prompt.box) {
    points.push_back({prompt.box->left * x_scale, prompt.box->top * y_scale, kBoxLeftTop});
    points.push_back({prompt.box->right * x_scale, prompt.box->bottom * y_scale, kBoxRightBottom});
  }
  for (const PromptPoint& point : prompt.points)
    points.push_back({point.x * x_scale, point.y * y_scale, point.positive ? kPositive : kNegative});
  return points;
}

// The logits of a mask prompt, and the decoder's mask input: a convolution of the mask, 4 × 4 with stride 4.
std::vector<float> Tracker::State::mask_prompt_logits(const BinaryMask& mask, std::vector<float>& mask_input,
                                                      bool& is_any) const {
  const int wide = model.side;
  std::vector<float> inside(mask.pixels.size());
  std::ranges::transform(mask.pixels, inside.begin(),
                         [](std::uint8_t pixel) { return pixel != 0 ? 1.0F : 0.0F; });
  if (mask.width != wide || mask.height != wide) {
    inside = resize_antialiased(inside, mask.width, mask.height, wide, wide);
    for (float& value : inside) value = value >= 0.5F ? 1.0F : 0.0F;
  }
  is_any = std::ranges::find(inside, 1.0F) != inside.end();
  const auto& weights = *model.manifest.mask_downsample;
  const std::size_t stride = static_cast<std::size_t>(wide), small = static_cast<std::size_t>(quarter());
  mask_input.assign(quarter_pixels(), weights[16]);
  for (std::size_t y = 0; y < small * 4; ++y)
    for (std::size_t x = 0; x < small * 4; ++x)
      mask_input[y / 4 * small + x / 4] += inside[y * stride + x] * weights[y % 4 * 4 + x % 4];
  for (float& value : inside) value = value * kMaskScale + kMaskBias;
  return resize_antialiased(inside, wide, wide, static_cast<int>(quarter()), static_cast<int>(quarter()));
}

Status Tracker::State::prompt_object(std::int64_t frame, std::size_t object, const VosPrompt& prompt) {
  ObjectState& state = states[object];
  const std::int64_t count = model.fixed.objects.value_or(1);
  rows.assign(1, {object, 0});
  if (prompt.mask) {
    std::vector<float> mask_input;
    bool is_any = false;
    const std::vector<float> logits = mask_prompt_logits(*prompt.mask, mask_input, is_any);
    if (auto status = decode({}, count, &mask_input, false); !status) return status;
    take_token(0, 0, true);
    std::ranges::copy(logits, state.logits.begin());
    state.score = is_any ? kMaskScale + kMaskBias : kMaskBias;
  } else {
    const std::vector<Point> points = points_of(prompt);
    if (auto status = decode(points, count, nullptr, true); !status) return status;
    take_token(0, static_cast<int>(points.size()), false);
  }
  // The predictor makes the memory of a prompt frame from the mask that it stored, in which holes are filled.
  if (is_predictor()) holes.fill(state.logits, static_cast<int>(quarter()), static_cast<int>(quarter()));
  return remember(frame, true, count);
}

// --- Tracked frames
// --------------------------------------------------------------------------------------------

std::size_t Tracker::State::most_prompts() const {
  std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (model.fixed.memories) most = std::min(most, *model.fixed.memories - (model.manifest.num_maskmem - 1));
  if (model.fixed.pointers) most = std::min(most, *model.fixed.pointers - (model.manifest.max_obj_ptrs - 1));
  return static_cast<std::size_t>(most);
}

Status Tracker::State::track_objects(std::int64_t frame) {
  for (const std::size_t object : order) {
    ObjectState& state = states[object];
    state.bank->look_back(frame, clip_frames, most_prompts(), state.seen);
  }
  // A batch has one number of memories and pointers. With mem_valid and ptr_valid all objects fit; otherwise
  // those with the same numbers form a batch.
  const auto numbers = [&](std::size_t object) {
    const Seen& seen = states[object].seen;
    return std::pair(model.attention_inputs.mem_valid ? 0 : seen.memories.size(),
                     model.attention_inputs.ptr_valid ? 0 : seen.pointers.size());
  };
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return std::pair(numbers(a), a) < std::pair(numbers(b), b);
  });
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && numbers(order[end]) == numbers(order[first])) ++end;
    // Batches of equal size, the last one filled up: another shape would make the runtime allocate anew.
    const std::size_t most =
        static_cast<std::size_t>(model.fixed.objects.value_or(std::max(options.objects_per_run, 1)));
    const std::size_t batches = (end - first + most - 1) / most;
    const std::size_t size = (end - first + batches - 1) / batches;
    for (; first < end; first += std::min(size, end - first)) {
      const std::span<const std::size_t> chosen(order.data() + first, std::min(size, end - first));
      const auto count = model.fixed.objects.value_or(static_cast<std::int64_t>(size));
      if (auto status = track_rows(frame, chosen, count); !status) return status;
    }
  }
  return {};
}

// Rows after the last object repeat it.
Status Tracker::State::track_rows(std::int64_t frame, std::span<const std::size_t> chosen,
                                  std::int64_t count) {
  rows.clear();
  for (const std::size_t object : chosen) rows.push_back({object, 0});
  if (auto status = attend(count); !status) return status;
  if (auto status = decode({}, count, nullptr, false); !status) return status;
  for (std::size_t row = 0; row < rows.size(); ++row) take_token(row, 0, false);
  if (auto status = remember(frame, false, count); !status) return status;
  // The memory of a tracked frame comes from the mask before its holes are filled.
  if (is_predictor())
    for (const Row& row : rows)
      holes.fill(states[row.object].logits, static_cast<int>(quarter()), static_cast<int>(quarter()));
  return {};
}

Status Tracker::State::place_memories(std::int64_t count, std::int64_t memories) {
  Graph& graph = model.attention;
  const AttentionInputs& inputs = model.attention_inputs;
  auto is_new = graph.shape_input(inputs.mem_features, {count, memories, tokens, depth});
  if (!is_new) return forward_error(is_new);
  const auto places = static_cast<std::size_t>(count * memories);
  if (*is_new || placed.size() != places) placed.assign(places, {});
  if (auto shaped = graph.shape_input(inputs.mem_slot, {count, memories}); !shaped)
    return forward_error(shaped);
  if (inputs.mem_valid)
    if (auto shaped = graph.shape_input(*inputs.mem_valid, {count, memories}); !shaped)
      return forward_error(shaped);
  const auto elements = static_cast<std::size_t>(tokens * depth);
  for (std::size_t place = 0; place < places; ++place) {
    const std::size_t row = std::min(place / static_cast<std::size_t>(memories), rows.size() - 1);
    const std::size_t at = place % static_cast<std::size_t>(memories), object = rows[row].object;
    const auto& seen = states[object].seen.memories;
    const bool is_valid = at < seen.size();
    const float valid = is_valid ? 1 : 0, slot = is_valid ? static_cast<float>(seen[at].slot) : 0;
    graph.write(inputs.mem_slot, place, {&slot, 1});
    if (inputs.mem_valid) graph.write(*inputs.mem_valid, place, {&valid, 1});
    if (!is_valid || placed[place] == Placed{object, seen[at].frame}) continue;
    graph.write(inputs.mem_features, place * elements, seen[at].features, options.memory_type, elements);
    placed[place] = {object, seen[at].frame};
  }
  return {};
}

Status Tracker::State::place_pointers(std::int64_t count, std::int64_t pointers) {
  Graph& graph = model.attention;
  const AttentionInputs& inputs = model.attention_inputs;
  if (auto shaped = graph.shape_input(inputs.obj_ptrs, {count, pointers, channels}); !shaped)
    return forward_error(shaped);
  if (auto shaped = graph.shape_input(inputs.ptr_age, {count, pointers}); !shaped)
    return forward_error(shaped);
  if (inputs.ptr_valid)
    if (auto shaped = graph.shape_input(*inputs.ptr_valid, {count, pointers}); !shaped)
      return forward_error(shaped);
  const auto elements = static_cast<std::size_t>(channels);
  const auto longest =
      std::max<std::int64_t>(pointers_of_clip(clip_frames, model.manifest.max_obj_ptrs) - 1, 1);
  for (std::size_t place = 0; place < static_cast<std::size_t>(count * pointers); ++place) {
    const std::size_t row = std::min(place / static_cast<std::size_t>(pointers), rows.size() - 1);
    const std::size_t at = place % static_cast<std::size_t>(pointers);
    const auto& seen = states[rows[row].object].seen.pointers;
    const bool is_valid = at < seen.size();
    const float valid = is_valid ? 1 : 0;
    const float age = is_valid && model.manifest.ptr_tpos
                          ? static_cast<float>(seen[at].frames_ago) / static_cast<float>(longest)
                          : 0;
    graph.write(inputs.ptr_age, place, {&age, 1});
    if (inputs.ptr_valid) graph.write(*inputs.ptr_valid, place, {&valid, 1});
    if (is_valid) graph.write(inputs.obj_ptrs, place * elements, {seen[at].values, elements});
  }
  return {};
}

Status Tracker::State::attend(std::int64_t count) {
  const auto full = [&](std::optional<std::int64_t> fixed, bool has_valid, int of_manifest, auto number_of) {
    if (fixed) return *fixed;
    // Objects of a batch may have different numbers only if the graph is told which ones are valid.
    std::int64_t most = has_valid ? of_manifest : 0;
    for (const Row& row : rows) most = std::max<std::int64_t>(most, number_of(states[row.object].seen));
    return most;
  };
  const AttentionInputs& inputs = model.attention_inputs;
  const auto memories =
      full(model.fixed.memories, inputs.mem_valid.has_value(), model.manifest.num_maskmem,
           [](const Seen& seen) { return static_cast<std::int64_t>(seen.memories.size()); });
  const auto pointers =
      full(model.fixed.pointers, inputs.ptr_valid.has_value(), model.manifest.max_obj_ptrs,
           [](const Seen& seen) { return static_cast<std::int64_t>(seen.pointers.size()); });
  if (auto status = forward_features(model.attention, inputs.image_embed); !status) return status;
  if (auto status = place_memories(count, memories); !status) return status;
  if (auto status = place_pointers(count, pointers); !status) return status;
  if (auto status = model.attention.run(); !status) return status;
  auto fused = model.attention.output_shape("fused", 0);
  if (!fused) return forward_error(fused);
  if (auto status = check_dims("fused", *fused, {count, channels, side() / 16, side() / 16}); !status)
    return status;
  return model.decoder.forward(model.decoder_inputs.image_embed, model.attention, "fused", 0, model.may_link);
}

// --- The decoder, and what follows it
// --------------------------------------------------------------------------

// Runs the decoder on `count` rows with the same points. Without memory, on the image's own features;
// otherwise on what attend() made, or for a mask prompt on the image's features.
Status Tracker::State::decode(std::span<const Point> points, std::int64_t count,
                              const std::vector<float>* mask_input, bool no_memory) {
  Graph& graph = model.decoder;
  const DecoderInputs& inputs = model.decoder_inputs;
  if (no_memory || mask_input != nullptr)
    if (auto status = forward_features(graph, inputs.image_embed, count); !status) return status;
  const std::pair<std::size_t, std::string_view> maps[] = {{inputs.high_res_0, "high_res_0"},
                                                           {inputs.high_res_1, "high_res_1"}};
  for (std::size_t i = 0; i < std::size(maps); ++i)
    if (auto status = graph.forward(maps[i].first, model.encoder, maps[i].second, i + 1, model.may_link);
        !status)
      return status;
  const std::size_t needed = std::max<std::size_t>(points.size(), 1);
  const auto slots = model.fixed.points.value_or(static_cast<std::int64_t>(needed));
  if (slots < static_cast<std::int64_t>(needed))
    return failure("cannot use the prompt",
                   fmt::format("it has {} points (a box has two), the mask decoder takes {}", needed, slots));
  if (auto shaped = graph.shape_input(inputs.point_coords, {count, slots, 2}); !shaped)
    return forward_error(shaped);
  if (auto shaped = graph.shape_input(inputs.point_labels, {count, slots}); !shaped)
    return forward_error(shaped);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count * slots); ++i) {
    const std::size_t at = i % static_cast<std::size_t>(slots);
    const Point point = at < points.size() ? points[at] : Point{};
    const std::array<float, 2> coordinates{point.x, point.y};
    graph.write(inputs.point_coords, 2 * i, coordinates);
    graph.write(inputs.point_labels, i, {&point.label, 1});
  }
  auto is_new = graph.shape_input(inputs.mask_input, {count, 1, quarter(), quarter()});
  if (!is_new) return forward_error(is_new);
  if (mask_input != nullptr) {
    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row)
      graph.write(inputs.mask_input, row * quarter_pixels(), *mask_input);
  } else if (!*is_new && !mask_input_is_zero) {
    graph.fill(inputs.mask_input, 0);
  }
  mask_input_is_zero = mask_input == nullptr;
  for (const auto& [input, value] :
       {std::pair(inputs.mask_on, mask_input != nullptr), std::pair(inputs.no_memory, no_memory)}) {
    if (auto shaped = graph.shape_input(input, {count, 1, 1, 1}); !shaped) return forward_error(shaped);
    graph.fill(input, value ? 1.0F : 0.0F);
  }
  if (auto status = graph.run(); !status) return status;
  auto masks = graph.output("masks", 0), ious = graph.output("ious", 1),
       pointers = graph.output("obj_ptrs", 2), scores = graph.output("object_score", 3);
  for (auto* output : {&masks, &ious, &pointers, &scores})
    if (!*output) return forward_error(*output);
  if (auto status = check_dims("masks", *masks, {count, 4, quarter(), quarter()}); !status) return status;
  if (auto status = check_dims("ious", *ious, {count, 4}); !status) return status;
  if (auto status = check_dims("obj_ptrs", *pointers, {count, 4, channels}); !status) return status;
  return check_dims("object_score", *scores, {count, 1});
}

// Takes the row's mask and score from the decoder's outputs, which decode() has checked, and notes its
// pointer.
void Tracker::State::take_token(std::size_t row, int points, bool is_mask_prompt) {
  const Graph& graph = model.decoder;
  ObjectState& state = states[rows[row].object];
  constexpr std::size_t kTokens = 4;
  const std::size_t pixels = quarter_pixels();
  state.score = floats_of(*graph.output("object_score", 3), row, 1, small_scratch)[0];
  if (is_mask_prompt) return;  // token 0 gives the pointer, the prompt itself the mask
  const auto ious = floats_of(*graph.output("ious", 1), row * kTokens, kTokens, small_scratch);
  const auto masks =
      floats_of(*graph.output("masks", 0), row * kTokens * pixels, kTokens * pixels, mask_scratch);
  const TokenChoice choice = choose_token(masks, ious, points, model.manifest, is_predictor());
  rows[row].pointer = choice.pointer;
  if (state.score > 0)
    std::ranges::copy(masks.subspan(choice.mask * pixels, pixels), state.logits.begin());
  else
    std::ranges::fill(state.logits, kNoObjectLogit);
}

// Runs the memory encoder on the objects' logits and stores their memories and pointers.
Status Tracker::State::remember(std::int64_t frame, bool is_prompt, std::int64_t count) {
  Graph& graph = model.memory;
  const MemoryInputs& inputs = model.memory_inputs;
  if (auto status = forward_features(graph, inputs.image_embed); !status) return status;
  if (auto shaped = graph.shape_input(inputs.mask_logits, {count, 1, quarter(), quarter()}); !shaped)
    return forward_error(shaped);
  if (auto shaped = graph.shape_input(inputs.binarize, {count, 1, 1, 1}); !shaped)
    return forward_error(shaped);
  if (auto shaped = graph.shape_input(inputs.object_score, {count, 1}); !shaped) return forward_error(shaped);
  graph.fill(inputs.binarize, is_prompt && is_predictor() ? 1.0F : 0.0F);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const ObjectState& state = states[rows[std::min(i, rows.size() - 1)].object];
    graph.write(inputs.mask_logits, i * quarter_pixels(), state.logits);
    graph.write(inputs.object_score, i, {&state.score, 1});
  }
  if (auto status = graph.run(); !status) return status;
  auto features = graph.output("mem_features", 0);
  if (!features) return forward_error(features);
  auto pointers = model.decoder.output("obj_ptrs", 2);
  if (!pointers) return forward_error(pointers);
  if (tokens == 0) {
    tokens = features->dim(1);
    depth = features->dim(2);
  }
  if (auto status = check_dims("mem_features", *features, {count, tokens, depth}); !status) return status;

  const auto elements = static_cast<std::size_t>(tokens * depth), wide = static_cast<std::size_t>(channels);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ObjectState& state = states[rows[i].object];
    if (!state.bank)
      state.bank.emplace(BankSizes{elements, wide, model.manifest.num_maskmem, model.manifest.max_obj_ptrs,
                                   options.memory_type});
    const auto pointer = floats_of(*pointers, (4 * i + rows[i].pointer) * wide, wide, pointer_scratch);
    state.bank->store(frame, is_prompt,
                      static_cast<const std::byte*>(features->data) + i * elements * size_of(features->type),
                      features->type, pointer);
  }
  return {};
}

void Tracker::State::make_masks() {
  const auto clear = [](BinaryMask& mask) { std::ranges::fill(mask.pixels, std::uint8_t{0}); };
  logit_spans.clear();
  mask_pointers.clear();
  for (std::size_t i = 0; i < objects; ++i) {
    ObjectState& state = states[i];
    const bool is_visible = state.is_tracked && state.score > 0;
    if (options.non_overlap) {
      logit_spans.push_back(is_visible ? std::span<const float>(state.logits) : std::span<const float>());
      mask_pointers.push_back(&state.mask);
    } else if (is_visible) {
      resizer.resize(state.logits, state.mask);
    } else {
      clear(state.mask);
    }
  }
  if (options.non_overlap) resizer.resize_without_overlap(logit_spans, mask_pointers);
}

// A trim may run the graph once more on what is bound to it, so graphs are trimmed before those whose outputs
// they read.
Status Tracker::State::trim() {
  if (!can_trim) return {};
  can_trim = false;
  if (model.attention.has_run())
    if (auto status = forward_features(model.attention, model.attention_inputs.image_embed); !status)
      return status;
  for (Graph* graph : {&model.memory, &model.decoder, &model.attention, &model.encoder})
    if (auto status = graph->trim(); !status) return status;
  return {};
}

// --- The public interface
// --------------------------------------------------------------------------------------

// A family's files: their masks are not the reference's, so there are none.
struct Tracker::FamilyState {
  FamilyRun run;
  Manifest manifest{};
  std::vector<BinaryMask> masks{};
};

Tracker::Tracker(std::unique_ptr<State> state, std::unique_ptr<FamilyState> family)
    : state_(std::move(state)), family_(std::move(family)) {}
Tracker::Tracker(Tracker&&) noexcept = default;
Tracker& Tracker::operator=(Tracker&&) noexcept = default;
Tracker::~Tracker() = default;

Result<Tracker> Tracker::load(Backend& backend, const std::filesystem::path& model,
                              const RuntimeSettings& settings, const TrackerOptions& options) {
  if (!is_float(options.memory_type))
    return usage_error(fmt::format("the memory bank cannot hold {}", name_of(options.memory_type)), {},
                       "use bfloat16, float16 or float32");
  if (!follows_contract(model)) {
    auto run = FamilyRun::load(backend, model, settings);
    if (!run) return forward_error(run);
    return Tracker(nullptr, std::unique_ptr<FamilyState>(new FamilyState{std::move(*run)}));
  }
  auto opened = open_contract(backend, model, settings);
  if (!opened) return forward_error(opened);
  return Tracker(std::unique_ptr<State>(new State{std::move(*opened), options}), nullptr);
}

std::string Tracker::label() const { return family_ ? label_of(family_->run.family()) : std::string(); }
const Manifest& Tracker::manifest() const { return family_ ? family_->manifest : state_->model.manifest; }
int Tracker::side() const { return family_ ? family_->run.side() : state_->model.side; }

Status Tracker::start_video(int width, int height, std::int64_t frames, std::size_t objects) {
  if (width <= 0 || height <= 0)
    return failure(fmt::format("a video of {} × {} pixels has no masks", width, height));
  if (family_) {
    family_->run.start_video(objects);
    const BinaryMask empty{
        width, height,
        std::vector<std::uint8_t>(static_cast<std::size_t>(width) * static_cast<std::size_t>(height))};
    family_->masks.assign(objects, empty);
    return {};
  }
  State& state = *state_;
  state.width = width;
  state.height = height;
  state.clip_frames = frames;
  state.last_frame = -1;
  state.objects = objects;
  if (state.states.size() < objects) state.states.resize(objects);
  for (std::size_t i = 0; i < objects; ++i) {
    ObjectState& object = state.states[i];
    object.pending.clear();
    if (object.bank) object.bank->clear();
    object.logits.assign(state.quarter_pixels(), kNoObjectLogit);
    object.mask.width = width;
    object.mask.height = height;
    object.mask.pixels.assign(static_cast<std::size_t>(width) * static_cast<std::size_t>(height), 0);
    object.is_tracked = false;
    object.score = kMaskBias;
  }
  const int quarter = static_cast<int>(state.quarter());
  state.resizer = MaskResizer(quarter, quarter, width, height, state.options.non_overlap ? objects : 1);
  state.placed.clear();
  state.order.reserve(objects);
  state.has_started = true;
  state.has_failed = false;
  return {};
}

Status Tracker::prompt(std::size_t object, const VosPrompt& prompt) {
  if (family_) return {};
  State& state = *state_;
  const std::string what = fmt::format("cannot prompt object {} in frame {}", object, prompt.frame);
  if (object >= state.objects) return failure(what, fmt::format("the video has {} objects", state.objects));
  if (prompt.frame <= state.last_frame) return failure(what, "this frame has been tracked already");
  if (prompt.mask) {
    const BinaryMask& mask = *prompt.mask;
    if (prompt.box || !prompt.points.empty()) return failure(what, "a mask takes no points and no box");
    if (!state.model.manifest.mask_downsample)
      return failure(what, "the model's manifest has no mask_downsample, which a mask needs",
                     "give points or a box");
    if (mask.width <= 0 || mask.height <= 0 ||
        mask.pixels.size() != static_cast<std::size_t>(mask.width) * static_cast<std::size_t>(mask.height) ||
        std::ranges::none_of(mask.pixels, [](std::uint8_t pixel) { return pixel != 0; }))
      return failure(what, "the mask is empty");
  } else if (!prompt.box && prompt.points.empty()) {
    return failure(what, "it has no points, box or mask");
  }
  auto& pending = state.states[object].pending;
  const auto place = std::ranges::lower_bound(pending, prompt.frame, {}, &VosPrompt::frame);
  if (place != pending.end() && place->frame == prompt.frame)
    *place = prompt;
  else
    pending.insert(place, prompt);
  return {};
}

Status Tracker::step(std::int64_t frame, std::span<const std::uint8_t> image) {
  if (family_) return family_->run.step(image);
  State& state = *state_;
  const char* const what = "cannot track a frame";
  if (!state.has_started) return failure(what, "no video has been started");
  if (state.has_failed) return failure(what, "an earlier frame of this video failed");
  if (frame <= state.last_frame)
    return failure(what,
                   fmt::format("frame {} follows frame {}; frames must ascend", frame, state.last_frame));
  const std::size_t bytes = kChannels * static_cast<std::size_t>(state.side() * state.side());
  if (image.size() != bytes)
    return failure(what, fmt::format("the image has {} bytes instead of {}", image.size(), bytes));
  auto status = state.step(frame, image);
  state.has_failed = !status;
  if (!status) state.can_trim = false;
  return status;
}

const BinaryMask& Tracker::mask(std::size_t object) const {
  return family_ ? family_->masks[object] : state_->states[object].mask;
}
std::span<const float> Tracker::logits(std::size_t object) const {
  return family_ ? std::span<const float>() : state_->states[object].logits;
}
TrackedObject Tracker::object(std::size_t object) const {
  if (family_) return {object, false, 0};
  const ObjectState& state = state_->states[object];
  return {object, state.is_tracked && state.score > 0, state.score};
}

Status Tracker::end_video() {
  if (family_) return family_->run.end_video();
  state_->has_started = false;
  return state_->trim();
}

Bytes Tracker::bank_bytes() const {
  if (family_) return family_->run.bank_bytes();
  std::size_t total = 0;
  for (const ObjectState& object : state_->states)
    if (object.bank) total += object.bank->bytes();
  return {static_cast<std::int64_t>(total)};
}

Bytes Tracker::scratch_bytes() const {
  if (family_) return family_->run.scratch_bytes();
  const State& state = *state_;
  std::size_t total = state.holes.bytes() + state.resizer.bytes();
  for (const Graph* graph :
       {&state.model.encoder, &state.model.decoder, &state.model.attention, &state.model.memory})
    total += graph->bytes();
  for (const ObjectState& object : state.states)
    total += object.logits.capacity() * sizeof(float) + object.mask.pixels.capacity();
  total +=
      (state.mask_scratch.capacity() + state.small_scratch.capacity() + state.pointer_scratch.capacity()) *
      sizeof(float);
  return {static_cast<std::int64_t>(total)};
}

}  // namespace headroom::inference::vos
