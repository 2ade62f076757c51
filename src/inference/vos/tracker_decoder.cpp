// The mask decoder, and what follows it in a frame: the choice of a mask, the memory and the masks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "inference/vos/small_floats.h"
#include "inference/vos/tracker_state.h"

namespace headroom::inference::vos {

namespace {

// A row of a tensor as floats: a part of the tensor itself, or a copy in `scratch`.
std::span<const float> floats_of(const TensorView& tensor, std::size_t first, std::size_t count,
                                 std::vector<float>& scratch) {
  if (tensor.type == ElementType::float32) return {tensor.as_float() + first, count};
  scratch.resize(count);
  convert(static_cast<const std::byte*>(tensor.data) + first * size_of(tensor.type), tensor.type,
          scratch.data(), ElementType::float32, count);
  return scratch;
}

}  // namespace

// Runs the decoder on `count` rows with the same points. Without memory, on the image's own features;
// otherwise on what attend() made, or for a mask prompt on the image's features.
Status Tracker::State::decode(std::span<const LabelledPoint> points, std::int64_t count,
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
    const LabelledPoint point = at < points.size() ? points[at] : LabelledPoint{};
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
  const TensorView masks = *graph.output("masks", 0);
  const auto mask_of = [&](std::size_t token) {
    return floats_of(masks, (row * kTokens + token) * pixels, pixels, mask_scratch);
  };
  // The rule reads the first token's mask alone, so of 16-bit masks at most two are widened.
  const TokenChoice choice = choose_token(mask_of(0), ious, points, model.manifest, is_predictor());
  rows[row].pointer = choice.pointer;
  if (state.score > 0)
    std::ranges::copy(mask_of(choice.mask), state.logits.begin());
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
    memory_type =
        options.memory_type.value_or(size_of(features->type) == 2 ? features->type : ElementType::bfloat16);
    tokens = features->dim(1);
    depth = features->dim(2);
  }
  if (auto status = check_dims("mem_features", *features, {count, tokens, depth}); !status) return status;

  const auto elements = static_cast<std::size_t>(tokens * depth), wide = static_cast<std::size_t>(channels);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ObjectState& state = states[rows[i].object];
    if (!state.bank)
      state.bank.emplace(
          BankSizes{elements, wide, model.manifest.num_maskmem, model.manifest.max_obj_ptrs, memory_type});
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

}  // namespace headroom::inference::vos
