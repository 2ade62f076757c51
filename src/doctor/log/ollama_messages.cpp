#include "doctor/log/ollama_messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/log_retry.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kOllama = "ollama", kRefusal = "ollama refusal", kRunnerEnd = "runner";
constexpr std::string_view kNeeds = "model requires more system memory",
                           kTooLarge = "msg=\"model request too large for system\"",
                           kLayout = "memory layout cannot be allocated", kRunner = "llama runner process";

// Before it loads anything: "model requires more system memory (5.3 GiB) than is available (4.8 GiB)". The
// server warns first, with more figures, and then tells the error; so does the client.
std::optional<LogMessage> read_refusal(std::string_view line) {
  LogMessage message;
  message.subject = kRefusal;
  message.add("runtime", kOllama);
  if (has(line, kTooLarge)) {
    message.part = "warning";
    message.add("requested_bytes", logged_size(line, " requested="));
    message.add("available_bytes", logged_size(line, " available="));
    message.add("ram_bytes", logged_size(line, " total="));
    message.add("free_bytes", logged_size(line, " free="));
    message.add("swap_free_bytes", logged_size(line, " swap="));
    return message;
  }
  message.part = has(line, "msg=") ? "server" : "client";
  if (const auto rest = text_after(line, kNeeds)) {
    // Without figures it is what the server does about it: "… than is currently available, evicting a model
    // to make space".
    message.add("requested_bytes", size_after(*rest, " ("));
    message.add("available_bytes", size_after(*rest, " than is available ("));
    if (!message.bytes("requested_bytes") || !message.bytes("available_bytes")) return std::nullopt;
    return message;
  }
  // "Error: …", "error=\"…", "ResponseError: …"; a program's own list of such words has none before it.
  if (const auto rest = text_after(line, kLayout); rest && has(line.substr(0, line.find(kLayout)), "rror")) {
    message.add("gpu_layers", integer_after(*rest, " with num_gpu = "));
    message.add("wanted", "layout");
    return message;
  }
  return std::nullopt;
}

// "llama runner process has terminated: cudaMalloc failed: out of memory", "… no longer running: -1 CUDA
// error: out of memory", with the last words of what ggml said.
std::optional<LogMessage> read_runner(std::string_view line) {
  const auto rest = text_after(line, kRunner);
  if (!rest || !(has(*rest, "has terminated") || has(*rest, "no longer running"))) return std::nullopt;
  const bool is_load = has(*rest, "error loading model: unable to allocate ");
  if (!is_load && !has(*rest, "out of memory") && !has(*rest, "failed to allocate")) return std::nullopt;
  LogMessage message;
  message.part = kRunnerEnd;
  message.add("runtime", kOllama);
  message.add("requested_bytes", size_after(*rest, "buffer of size "));
  if (is_load) message.add("wanted", "weights");
  if (has(*rest, "ggml_gallocr_reserve")) message.add("wanted", "compute buffer");
  return message;
}

}  // namespace

const std::vector<std::string_view>& ollama_anchors() {
  // Parts of the words above whose fifth and sixth byte are rare together: that pair is what every text is
  // searched for (anchor_search.h).
  static const std::vector<std::string_view> kAnchors{"re system memory", kTooLarge, kLayout,
                                                      "ama runner process"};
  return kAnchors;
}

std::optional<LogMessage> read_ollama(std::string_view line) {
  auto message = read_runner(line);
  if (!message) message = read_refusal(line);
  if (message) message->ends_program = true;
  return message;
}

bool is_ollama_line(std::string_view line) {
  return has(line, "ollama[") || has(line, "/ollama] ") || source_of(line).starts_with("ollama");
}

bool is_of_ollama(const LogMessage& message) { return message.text("runtime") == kOllama; }

bool is_ollama_refusal(const LogMessage& message) { return message.subject == kRefusal; }

std::optional<Bytes> logged_size(std::string_view line, std::string_view key) {
  auto value = text_after(line, key);
  if (!value) return std::nullopt;
  if (value->starts_with('"')) value->remove_prefix(1);
  return leading_size(*value);
}

Finding explain_ollama(const LogMessage& message) {
  const auto needed = message.bytes("requested_bytes"), available = message.bytes("available_bytes");
  const bool is_layout = message.text("wanted") == "layout";
  Finding finding;
  finding.id = "ollama-out-of-memory";
  finding.severity = Severity::severe;
  finding.confidence = Confidence::certain;
  if (is_layout) {
    const auto layers = message.number("gpu_layers");
    finding.title = layers ? fmt::format("Ollama could not place a model with {} layers on the GPU", *layers)
                           : "Ollama could not place a model on the GPU and in the host's memory";
    finding.cause =
        layers ? "The GPU's free memory is too small for that many layers (num_gpu)."
               : "No split of the model's layers between the GPU and the host fits in the free memory.";
  } else if (needed && available) {
    finding.title =
        fmt::format("Ollama refused to load a model: it needs {} of the host's memory, but {} are available",
                    format_bytes(*needed), format_bytes(*available));
    finding.cause = fmt::format(
        "The part of the model on the host is {} larger than the host's free memory and free swap together.",
        format_bytes(Bytes{std::max<std::int64_t>(0, (*needed - *available).count)}));
  } else {
    finding.title = "Ollama refused to load a model: it is too large for the system";
    finding.cause = "The model is larger than the host's free memory and free swap together.";
  }
  std::optional<GpuLayers> layers;
  if (const auto asked = message.number("gpu_layers"); is_layout && asked && *asked > 1)
    layers = GpuLayers{*asked / 2, {}};
  add_ollama_cures(message, layers, !is_layout, finding.cures);
  return finding;
}

std::optional<LayersOfGpu> layers_of_gpu(const LogMessage& message) {
  const std::int64_t gpu = message.number("gpu").value_or(0);
  const std::string split_of_layers = message.text("layers_split");
  if (split_of_layers.empty()) return std::nullopt;
  constexpr std::int64_t kMostLayers = 10'000;
  LayersOfGpu layers;
  std::int64_t number = 0;
  for (const std::string_view each : split(split_of_layers, ',')) {
    const auto count = parse_number<std::int64_t>(each);
    if (!count || *count < 0 || *count > kMostLayers) return std::nullopt;
    if (number++ == gpu) layers.own = *count;
    layers.all += *count;
  }
  if (layers.all != message.number("gpu_layers").value_or(layers.all))
    return std::nullopt;  // another model's
  return layers.own > 0 ? std::optional(layers) : std::nullopt;
}

namespace {

// What of the cache is on the GPU that was full: as many parts of it as layers.
std::optional<Bytes> cache_of_gpu(const LogMessage& message) {
  const auto cache = message.bytes("kv_cache_bytes");
  const auto layers = layers_of_gpu(message);
  return cache && layers ? Bytes{cache->count / layers->all * layers->own} : cache;
}

}  // namespace

void add_ollama_cures(const LogMessage& message, const std::optional<GpuLayers>& layers, bool is_host,
                      std::vector<Cure>& cures) {
  const bool is_weights = message.text("wanted") == "weights";
  if (layers)
    cures.push_back({fmt::format("keep at most {} layers on the GPU: this makes memory free for the request",
                                 layers->stay),
                     fmt::format("/set parameter num_gpu {}  # API: \"options\": {{\"num_gpu\": {}}}",
                                 layers->stay, layers->stay),
                     layers->freed.count > 0 ? std::optional(layers->freed) : std::nullopt});
  // What it printed counts the contexts of all requests that run at a time.
  const std::int64_t parallel = std::max<std::int64_t>(1, message.number("parallel").value_or(1));
  const std::int64_t context = message.number("context_length").value_or(0) / parallel;
  const auto cache = is_host ? message.bytes("host_kv_cache_bytes") : cache_of_gpu(message);
  const auto share_of_cache = [&](std::int64_t part, std::int64_t of) -> std::optional<Bytes> {
    return cache && !is_impossible(*cache) ? std::optional(Bytes{cache->count / of * part}) : std::nullopt;
  };
  if (!is_weights) {
    if (parallel > 1)
      cures.push_back({fmt::format("serve one request at a time: Ollama kept {} contexts", parallel),
                       "OLLAMA_NUM_PARALLEL=1 ollama serve", share_of_cache(parallel - 1, parallel)});
    cures.push_back({"halve the context: the key-value cache shrinks with it",
                     context > 1
                         ? fmt::format("/set parameter num_ctx {}  # API: \"options\": {{\"num_ctx\": {}}}",
                                       context / 2, context / 2)
                         : "/set parameter num_ctx N  # half of KvSize in the server's log",
                     share_of_cache(1, 2)});
    if (message.text("kv_cache_type").empty() || message.text("kv_cache_type") == "f16")
      cures.push_back({"store the key-value cache in 8 bits (half of f16; needs flash attention)",
                       "OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve",
                       share_of_cache(1, 2)});
  }
  cures.push_back({"keep one model in memory at a time (ollama ps lists the loaded ones)",
                   "OLLAMA_MAX_LOADED_MODELS=1 ollama serve",
                   {}});
  if (!layers && !is_host)
    cures.push_back({"keep fewer layers on the GPU",
                     "/set parameter num_gpu N  # below GPULayers in the server's log",
                     {}});
  cures.push_back({"use a model with fewer bits or parameters (q4_K_M takes about half of q8_0)",
                   "ollama pull MODEL:TAG",
                   {}});
  if (is_host && message.bytes("swap_free_bytes").value_or(Bytes{1}).count == 0)
    cures.push_back(make_swap_file("add swap, which Ollama counts as available (slow when used)",
                                   message.bytes("ram_bytes")));
}

}  // namespace headroom::doctor
