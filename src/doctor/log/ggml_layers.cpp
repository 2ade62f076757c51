#include "doctor/log/ggml_layers.h"

#include <algorithm>

#include "doctor/log/ggml_cache.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

constexpr std::int64_t kMostLayers = 10'000;

bool is_count(const std::optional<std::int64_t>& layers) {
  return layers && *layers > 0 && *layers < kMostLayers;
}

// The weights are on the GPU, and something else was refused: as many layers leave as make room for it.
std::optional<GpuLayers> make_room(const LogMessage& message, Bytes requested, Bytes model) {
  const std::int64_t on_gpu = *message.number("gpu_layers");
  const auto split = layers_of_gpu(message);
  const bool is_of_these = split && split->all == on_gpu;  // its buffer holds its own alone
  const std::int64_t held = is_of_these ? split->own : on_gpu;
  if (model.count < held) return std::nullopt;
  const std::int64_t each = model.count / held;
  const std::int64_t leave = (requested.count - 1) / each + 1;
  return GpuLayers{std::max<std::int64_t>(0, on_gpu - leave), Bytes{std::min(leave, on_gpu) * each}};
}

// The weights themselves were refused: as large a part of the layers stays as was free.
std::optional<GpuLayers> part_of_weights(Bytes requested, Bytes free, std::int64_t layers) {
  if (free >= requested) return std::nullopt;
  const double part = static_cast<double>(free.count) / static_cast<double>(requested.count);
  const auto stay = static_cast<std::int64_t>(part * static_cast<double>(layers));
  return GpuLayers{stay, Bytes{requested.count / layers * (layers - stay)}};
}

// A layer that leaves the GPU takes its weights and its part of the cache along, and nothing of the cache is
// there yet: as many stay as have room for both. Of several GPUs nobody tells how many layers each has.
std::optional<GpuLayers> with_their_cache(const LogMessage& message, Bytes requested, Bytes model) {
  const auto free = message.bytes("free_bytes");
  const auto layers = message.number("layers");
  const auto split = layers_of_gpu(message);
  const bool are_several = message.number("gpu").value_or(0) > 0 || (split && split->own != split->all);
  const std::int64_t on_gpu = *message.number("gpu_layers");
  if (!free || are_several || *free >= model + requested) return std::nullopt;
  // "offloaded 33/33 layers": the last is the output, which has no cache.
  const bool has_output = layers && on_gpu >= *layers && on_gpu > 1;
  const std::int64_t cached = on_gpu - (has_output ? 1 : 0);
  const std::int64_t each = model.count / on_gpu + requested.count / cached;
  if (each <= 0) return std::nullopt;
  const std::int64_t stay = std::clamp<std::int64_t>(free->count / each, 0, on_gpu - 1);
  return GpuLayers{stay, model + requested - Bytes{stay * each}};
}

}  // namespace

std::optional<GpuLayers> layers_that_fit(const LogMessage& message) {
  const auto requested = message.bytes("requested_bytes"), model = message.bytes("model_buffer_bytes"),
             free = message.bytes("free_bytes");
  const auto layers = message.number("layers");
  if (!requested || requested->count <= 0 || is_impossible(*requested)) return std::nullopt;
  if (model && is_count(message.number("gpu_layers")))
    return is_cache_refused(message) ? with_their_cache(message, *requested, *model)
                                     : make_room(message, *requested, *model);
  if (free && is_count(layers) && !model && !is_cache_refused(message))
    return part_of_weights(*requested, *free, *layers);
  return std::nullopt;
}

}  // namespace headroom::doctor
