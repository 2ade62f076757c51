#include "doctor/log/rules/ggml_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "doctor/log/line_pattern.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kTokenStep = 256;  // llama.cpp rounds a context up to that many tokens

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
  if (model.count < on_gpu) return;
  const std::int64_t each = model.count / on_gpu;
  const std::int64_t leave = (requested.count - 1) / each + 1;
  add_layers(message, std::max<std::int64_t>(0, on_gpu - leave), Bytes{std::min(leave, on_gpu) * each});
}

// A layer that leaves the GPU takes its weights and its part of the cache along, and nothing of the cache is
// there yet: as many stay as have room for both. Of several GPUs the log does not say how many layers each
// has.
void make_room_for_cache(LogMessage& message, Bytes requested, Bytes model) {
  const auto free = message.bytes("free_bytes");
  const auto layers = message.number("layers");
  const bool are_several = message.number("gpu").value_or(0) > 0;
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

// "print_info: n_layer          = 32", "llama_context: n_ctx         = 8192"
std::optional<std::int64_t> setting_in(std::string_view line, std::string_view name) {
  const auto rest = text_after(line, name);
  const std::size_t at = rest ? rest->find_first_not_of(' ') : line.npos;
  if (at == line.npos || (*rest)[at] != '=') return std::nullopt;
  const auto value = integer_after(*rest, "=");
  constexpr std::int64_t kMost = 100'000'000;
  return value && *value > 0 && *value <= kMost ? value : std::nullopt;
}

// `msg="offload to cuda" … layers.model=49 layers.offload=49 … memory.required.kv="768.0 MiB" …`, up to 0.11.
void read_ollama_estimate(std::string_view line, LogMessage& message) {
  const auto match = [&](std::string_view pattern) { return match_pattern(pattern, line, message); };
  match(" layers.model={layers:int}");
  match(" layers.offload={gpu_layers:int}");
  const auto on_gpu = message.number("gpu_layers");
  const bool is_host = on_gpu && *on_gpu == 0;
  match(is_host ? " memory.required.kv=\"{host_kv_cache_bytes}" : " memory.required.kv=\"{kv_cache_bytes}");
  // Of several GPUs there are as many figures: "[14.9 GiB 14.9 GiB]".
  if (!is_host) match(" memory.available=\"[{free_bytes}]");
}

}  // namespace

std::optional<LogMessage> read_ggml_context(std::string_view line) {
  LogMessage message;
  const auto match = [&](std::string_view pattern) { return match_pattern(pattern, line, message); };
  // If that fails, too, a refusal follows.
  message.answers = has(line, "retrying without pipeline parallelism");
  if (message.answers) return message;
  match("offloaded {gpu_layers:int}/{layers:int} layers to GPU");
  message.add("layers", setting_in(line, ": n_layer "));
  message.add("context_length", setting_in(line, ": n_ctx "));
  message.add("micro_batch", setting_in(line, ": n_ubatch "));
  if (has(line, "CUDA") || has(line, "ROCm") || has(line, "Vulkan")) {
    match("model buffer size ={model_buffer_bytes}");
    match("KV buffer size ={kv_cache_bytes}");
    match("using device …) - {free_bytes}");  // "using device CUDA0 (Orin) - 3875 MiB free"
  }
  // Of all devices, behind those of each; since 2025 "llama_kv_cache: size = 1005.79 MiB ( 4096 cells, …".
  LogMessage all;
  if (match_pattern("KV self size  ={kv_cache_bytes}", line, all) ||
      match_pattern("llama_kv_cache…: size ={kv_cache_bytes}… cells,", line, all))
    message.set(all.figures.front());
  match("pipeline parallelism enabled (n_copies={pipeline_copies:int}");
  message.add("program", ggml_program_of(line));
  if (is_word(line, "ggml_vulkan") || has(line, "loaded Vulkan backend") || has(line, "llama_model_loader: "))
    message.add("backend", "ggml");
  return message.figures.empty() ? std::nullopt : std::optional(message);
}

std::optional<LogMessage> read_ollama_context(std::string_view line) {
  LogMessage message;
  const auto match = [&](std::string_view pattern) { return match_pattern(pattern, line, message); };
  if (has(line, " layers.offload=")) {
    read_ollama_estimate(line, message);
  } else if (has(line, " KvCacheType:") && has(line, " KvSize:")) {
    for (const std::string_view pattern : {" KvSize:{context_length:int}", " Parallel:{parallel:int}",
                                           " GPULayers:{gpu_layers:int}", " KvCacheType:{kv_cache_type} "})
      match(pattern);
  } else if (has(line, "msg=\"kv cache\" device=")) {
    const bool is_host = has(line, "device=CPU");
    match(is_host ? " size=\"{host_kv_cache_bytes}" : " size=\"{kv_cache_bytes}");
    match(is_host ? " size={host_kv_cache_bytes}" : " size={kv_cache_bytes}");
  } else if (has(line, "msg=\"starting ") && has(line, "ollama")) {  // the runner, with llama.cpp's flags
    match(" --ctx-size {context_length:int}");
    match(" --parallel {parallel:int}");
  } else if (has(line, "msg=\"system memory\" total=")) {
    match(" total=\"{ram_bytes}");
    match(" free_swap=\"{swap_free_bytes}");
  } else if (has(line, "msg=\"llama runner started in ")) {
    message.answers = true;  // it tries fewer layers on the GPU until they fit
  } else if (!has(line, " OLLAMA_NUM_PARALLEL:")) {
    return std::nullopt;
  }
  message.add("runtime", "ollama");
  return message;
}

void derive_ggml(LogMessage& message) {
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
