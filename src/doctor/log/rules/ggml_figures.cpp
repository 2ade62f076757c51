#include "doctor/log/rules/ggml_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/requested_size.h"

namespace headroom::doctor {
namespace {

constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kTokenStep = 256;  // llama.cpp rounds a context up to that many tokens

// Of several GPUs, among which Ollama divided the layers ("layers_split"): how many the one that was full
// has.
struct LayersOfGpu {
  std::int64_t own = 0, all = 0;
};

std::optional<LayersOfGpu> layers_of_gpu(const LogMessage& message) {
  const std::int64_t gpu = message.number("gpu").value_or(0);
  const std::string split_of_layers = message.text("layers_split");
  if (split_of_layers.empty()) return std::nullopt;
  LayersOfGpu layers;
  std::int64_t number = 0;
  for (const std::string_view each : split(split_of_layers, ',')) {
    const auto count = parse_number<std::int64_t>(each);
    if (!count || *count < 0 || *count > kMostLayers) return std::nullopt;
    if (number++ == gpu) layers.own = *count;
    layers.all += *count;
  }
  const bool is_other_model = layers.all != message.number("gpu_layers").value_or(layers.all);
  return is_other_model || layers.own == 0 ? std::nullopt : std::optional(layers);
}

bool is_count(const std::optional<std::int64_t>& layers) {
  return layers && *layers > 0 && *layers < kMostLayers;
}

bool is_cache_refused(const LogMessage& message) { return message.text("wanted") == "key-value cache"; }

void add_layers(LogMessage& message, std::int64_t stay, Bytes freed) {
  message.add("stay", std::optional(stay));
  message.add("freed_bytes", std::optional(freed));
}

// The weights are on the GPU, and something else was refused: as many layers leave as make room for it.
void make_room(LogMessage& message, Bytes requested, Bytes model) {
  const std::int64_t on_gpu = *message.number("gpu_layers");
  const auto split = layers_of_gpu(message);
  const bool is_of_these = split && split->all == on_gpu;  // its buffer holds its own alone
  const std::int64_t held = is_of_these ? split->own : on_gpu;
  if (model.count < held) return;
  const std::int64_t each = model.count / held;
  const std::int64_t leave = (requested.count - 1) / each + 1;
  add_layers(message, std::max<std::int64_t>(0, on_gpu - leave), Bytes{std::min(leave, on_gpu) * each});
}

// A layer that leaves the GPU takes its weights and its part of the cache along, and nothing of the cache is
// there yet: as many stay as have room for both. Of several GPUs the log does not say how many layers each
// has.
void make_room_for_cache(LogMessage& message, Bytes requested, Bytes model) {
  const auto free = message.bytes("free_bytes");
  const auto layers = message.number("layers");
  const auto split = layers_of_gpu(message);
  const bool are_several = message.number("gpu").value_or(0) > 0 || (split && split->own != split->all);
  const std::int64_t on_gpu = *message.number("gpu_layers");
  if (!free || are_several || *free >= model + requested) return;
  // "offloaded 33/33 layers": the last is the output, which has no cache.
  const bool has_output = layers && on_gpu >= *layers && on_gpu > 1;
  const std::int64_t cached = on_gpu - (has_output ? 1 : 0);
  const std::int64_t each = model.count / on_gpu + requested.count / cached;
  if (each <= 0) return;
  const std::int64_t stay = std::clamp<std::int64_t>(free->count / each, 0, on_gpu - 1);
  add_layers(message, stay, model + requested - Bytes{stay * each});
}

// The weights themselves were refused: as large a part of the layers stays as was free.
void keep_part_of_weights(LogMessage& message, Bytes requested, Bytes free, std::int64_t layers) {
  if (free >= requested) return;
  const double part = static_cast<double>(free.count) / static_cast<double>(requested.count);
  const auto stay = static_cast<std::int64_t>(part * static_cast<double>(layers));
  add_layers(message, stay, Bytes{requested.count / layers * (layers - stay)});
}

void derive_layers(LogMessage& message) {
  const auto requested = message.bytes("requested_bytes"), model = message.bytes("model_buffer_bytes"),
             free = message.bytes("free_bytes");
  const auto layers = message.number("layers");
  if (!requested || requested->count <= 0 || is_impossible(*requested)) return;
  if (model && is_count(message.number("gpu_layers"))) {
    if (is_cache_refused(message))
      make_room_for_cache(message, *requested, *model);
    else
      make_room(message, *requested, *model);
  } else if (free && is_count(layers) && !model && !is_cache_refused(message)) {
    keep_part_of_weights(message, *requested, *free, *layers);
  }
}

// The cache grows in step with the context.
std::int64_t tokens_in(Bytes room, Bytes cache, std::int64_t context) {
  const double part = static_cast<double>(room.count) / static_cast<double>(cache.count);
  return static_cast<std::int64_t>(part * static_cast<double>(context)) / kTokenStep * kTokenStep;
}

// What the weights leave of the GPU for the cache, and how long a context fits in it.
void derive_cache(LogMessage& message) {
  const auto requested = message.bytes("requested_bytes"), model = message.bytes("model_buffer_bytes"),
             free = message.bytes("free_bytes");
  const auto context = message.number("context_length");
  if (!requested || is_impossible(*requested)) return message.add("half_context", "yes");
  // q8_0 keeps 32 values in 34 bytes, f16 in 64.
  const Bytes smaller{requested->count / 64 * 34};
  message.add("saved_by_8_bits_bytes", std::optional(*requested - smaller));
  const bool is_elsewhere = message.text("memory") == "host" || message.number("gpu").value_or(0) > 0;
  if (is_elsewhere || !model || !free || *model >= *free || *free - *model >= *requested)
    return message.add("half_context", "yes");
  const Bytes room = *free - *model;
  message.add("room_bytes", std::optional(room));
  if (!context || *context <= 0) return message.add("half_context", "yes");
  if (const std::int64_t tokens = tokens_in(room, *requested, *context); tokens >= kTokenStep) {
    const double part = static_cast<double>(tokens) / static_cast<double>(*context);
    const Bytes held{static_cast<std::int64_t>(part * static_cast<double>(requested->count))};
    message.add("tokens", std::optional(tokens));
    message.add("saved_by_tokens_bytes", std::optional(*requested - held));
  }
  if (smaller > room)
    if (const std::int64_t tokens = tokens_in(room, smaller, *context); tokens >= kTokenStep)
      message.add("tokens_in_8_bits", std::optional(tokens));
}

// What Ollama printed counts the contexts of all requests that run at a time.
void derive_ollama(LogMessage& message) {
  const std::int64_t parallel = std::max<std::int64_t>(1, message.number("parallel").value_or(1));
  const bool is_host = message.text("memory") == "host" || message.bytes("available_bytes");
  if (is_host) message.add("on_host", "yes");
  message.add("context_of_one", std::optional(message.number("context_length").value_or(0) / parallel));
  auto cache = is_host ? message.bytes("host_kv_cache_bytes") : message.bytes("kv_cache_bytes");
  if (const auto layers = is_host ? std::nullopt : layers_of_gpu(message); cache && layers)
    cache = Bytes{cache->count / layers->all * layers->own};
  if (cache && is_impossible(*cache)) cache.reset();
  message.add("cache_bytes", cache);
  if (cache)
    message.add("saved_by_one_bytes", std::optional(Bytes{cache->count / parallel * (parallel - 1)}));
  // Half of the memory, in whole GiB: MemTotal is a little less than what is built in.
  constexpr std::int64_t kGib = gibibytes(1).count;
  const auto ram = message.number("ram_bytes");
  message.add("swap_size", ram ? fmt::format("{}G", std::max<std::int64_t>(1, (*ram / 2 + kGib - 1) / kGib))
                               : "$(awk '/MemTotal/ {print int($2/2097152)+1}' /proc/meminfo)G");
  if (message.text("wanted") != "layout") return;
  const auto asked = message.number("gpu_layers");
  if (asked && *asked > 1) message.add("stay", std::optional(*asked / 2));
}

// llama.cpp's flags for half of what its log told.
void derive_halves(LogMessage& message) {
  const auto context = message.number("context_length"), batch = message.number("micro_batch");
  message.add("half_context_flag", context && *context > 1 ? fmt::format("-c {}", *context / 2)
                                                           : "-c N, half of n_ctx in its log");
  message.add("half_batch_flag",
              batch && *batch > 1 ? fmt::format("-ub {}", *batch / 2) : "-ub N, half of n_ubatch in its log");
}

void derive_words(LogMessage& message) {
  const bool is_ollama = message.text("runtime") == "ollama";
  const std::string program = is_ollama ? "Ollama" : message.text("program"), wanted = message.text("wanted"),
                    size = words_for_requested(message, "");
  message.add("who", program.empty() ? "ggml" : program + " (ggml)");
  message.add("what", !size.empty() && is_cache_refused(message) ? "its " + wanted + " of " + size
                      : !size.empty()                            ? "a buffer of " + size
                      : wanted.empty() || wanted == "weights"    ? "a buffer"
                                                                 : "its " + wanted);
  const auto gpu = message.number("gpu");
  message.add("where", message.text("memory") == "host" ? "in the host's memory"
                       : gpu && *gpu > 0                ? fmt::format("on GPU {}", *gpu)
                                                        : "on the GPU");
}

}  // namespace

void derive_ggml(LogMessage& message) {
  derive_words(message);
  derive_halves(message);
  if (message.text("memory") != "host" && message.subject != "ollama refusal") derive_layers(message);
  if (is_cache_refused(message)) derive_cache(message);
  if (message.text("runtime") == "ollama") derive_ollama(message);
  if (message.number("pipeline_copies").value_or(1) > 1 && message.text("wanted") == "compute buffer")
    message.add("pipelined", "yes");
  // A Vulkan error that any program may have is ggml's if the log has anything else of ggml.
  constexpr std::string_view kOfGgml[] = {
      "backend",     "program",    "runtime", "layers",         "gpu_layers",         "context_length",
      "micro_batch", "free_bytes", "wanted",  "kv_cache_bytes", "model_buffer_bytes", "requested_bytes"};
  for (const Figure& figure : message.figures)
    if (std::find(std::begin(kOfGgml), std::end(kOfGgml), figure.name) != std::end(kOfGgml))
      return message.add("is_of_ggml", "yes");
}

std::string_view ggml_program_of(std::string_view line) {
  for (const std::string_view words : {"whisper_init", "whisper_model", "whisper_kv_cache", "whisper_sched",
                                       "whisper_full", "whisper_backend", "whisper_print_"})
    if (is_word(line, words)) return "whisper.cpp";
  return has(line, "stable-diffusion.cpp") || has(line, "ggml_extend.hpp") ? "stable-diffusion.cpp" : "";
}

}  // namespace headroom::doctor
