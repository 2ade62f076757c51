// Tracked frames: objects in batches, and what memory attention sees of the past.
#include <algorithm>
#include <limits>
#include <utility>

#include "inference/vos/tracker_state.h"

namespace headroom::inference::vos {

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
    for (const BatchRow& row : rows)
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
    if (!is_valid || placed[place] == PlacedMemory{object, seen[at].frame}) continue;
    graph.write(inputs.mem_features, place * elements, seen[at].features, memory_type, elements);
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
    for (const BatchRow& row : rows) most = std::max<std::int64_t>(most, number_of(states[row.object].seen));
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

}  // namespace headroom::inference::vos
