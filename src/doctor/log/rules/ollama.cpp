#include "doctor/log/rules/ollama.h"

#include "doctor/log/common_cures.h"
#include "doctor/log/line_pattern.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// `msg="offload to cuda" … layers.model=49 layers.offload=49 … memory.required.kv="768.0 MiB" …`, up to 0.11.
void read_ollama_estimate(std::string_view line, LogMessage& message) {
  const auto match = [&](std::string_view pattern) { return match_pattern(pattern, line, message); };
  match(" layers.model={layers:int}");
  match(" layers.offload={gpu_layers:int}");
  const auto on_gpu = message.number("gpu_layers");
  // Of several GPUs, how many layers each has: "layers.split=10,11,11"; of one, "", and it has all. That must
  // not stay as an earlier model had it.
  const auto split = text_after(line, " layers.split=");
  if (split && !split->starts_with('"'))
    message.add("layers_split", split->substr(0, split->find(' ')));
  else if (on_gpu)
    message.add("layers_split", std::to_string(*on_gpu));
  const bool is_host = on_gpu && *on_gpu == 0;
  match(is_host ? " memory.required.kv=\"{host_kv_cache_bytes}" : " memory.required.kv=\"{kv_cache_bytes}");
  // Of several GPUs there are as many figures: "[14.9 GiB 14.9 GiB]".
  if (!is_host) match(" memory.available=\"[{free_bytes}]");
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

}  // namespace

// In Ollama's own words: a refusal before it allocates anything, or the end of its runner. A later start is
// another load.
std::vector<Wording> ollama_wordings() {
  const LineTraits ends{.ends_program = true};
  std::vector<Wording> wordings{
      {.all = {"msg=\"model request too large for system\""},
       .figures = {"runtime=ollama", " requested=\"{requested_bytes}", " requested={requested_bytes}",
                   " available=\"{available_bytes}", " available={available_bytes}", " total=\"{ram_bytes}",
                   " total={ram_bytes}", " free=\"{free_bytes}", " free={free_bytes}",
                   " swap=\"{swap_free_bytes}", " swap={swap_free_bytes}"},
       .subject = "ollama refusal",
       .part = "warning",
       .traits = ends}};
  for (const std::string_view part : {"server", "client"}) {
    const std::vector<std::string_view> none =
        part == "server" ? std::vector<std::string_view>{} : std::vector<std::string_view>{"msg="};
    const std::vector<std::string_view> any =
        part == "server" ? std::vector<std::string_view>{"msg="} : std::vector<std::string_view>{};
    // Without figures it is what the server does: "… than is currently available, evicting a model".
    wordings.push_back({.all = {"model requires more system memory", "requires more system memory ({:size}",
                                " than is available ({:size}"},
                        .any = any,
                        .none = none,
                        .figures = {"runtime=ollama", "more system memory ({requested_bytes}",
                                    " than is available ({available_bytes}"},
                        .subject = "ollama refusal",
                        .part = part,
                        .traits = ends});
    // A program's own list of such words has no "Error: " before it.
    wordings.push_back({.all = {"rror…memory layout cannot be allocated"},
                        .any = any,
                        .none = none,
                        .figures = {"runtime=ollama", " with num_gpu = {gpu_layers:int}", "wanted=layout"},
                        .subject = "ollama refusal",
                        .part = part,
                        .traits = ends});
  }
  // "… no longer running: -1 CUDA error: out of memory", with the last words of ggml.
  for (const std::string_view end :
       {"llama runner process…has terminated", "llama runner process…no longer running"})
    for (const auto& [reason, wanted] :
         {std::pair{"error loading model: unable to allocate ", "wanted=weights"},
          std::pair{"ggml_gallocr_reserve", "wanted=compute buffer"},
          std::pair{"out of memory", "runtime=ollama"}, std::pair{"failed to allocate", "runtime=ollama"}})
      wordings.push_back({.all = {end, reason},
                          .figures = {"runtime=ollama", "buffer of size {requested_bytes}", wanted},
                          .subject = "memory",
                          .part = "runner",
                          .traits = ends});
  return wordings;
}

std::vector<CureRow> ollama_cures() {
  constexpr std::string_view kHalf =
                                 "store the key-value cache in 8 bits (half of f16; needs flash attention)",
                             kHalveOllamaContext = "halve the context: the key-value cache shrinks with it",
                             kHalfCommand = "OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve";
  return {{"keep at most {stay} layers on the GPU: this makes memory free for the request",
           "/set parameter num_gpu {stay}  # API: \"options\": {\"num_gpu\": {stay}}", "freed_bytes"},
          {"serve one request at a time: Ollama kept {parallel} contexts",
           "OLLAMA_NUM_PARALLEL=1 ollama serve", "saved_by_one_bytes", "wanted!=weights, parallel>1"},
          {kHalveOllamaContext,
           "/set parameter num_ctx {context_of_one/2}  # API: \"options\": {\"num_ctx\": {context_of_one/2}}",
           "cache_bytes/2", "wanted!=weights, context_of_one>1"},
          {kHalveOllamaContext, "/set parameter num_ctx N  # half of KvSize in the server's log",
           "cache_bytes/2", "wanted!=weights, !context_of_one>1"},
          {kHalf, kHalfCommand, "cache_bytes/2", "wanted!=weights, !kv_cache_type"},
          {kHalf, kHalfCommand, "cache_bytes/2", "wanted!=weights, kv_cache_type=f16"},
          {"keep one model in memory at a time (ollama ps lists the loaded ones)",
           "OLLAMA_MAX_LOADED_MODELS=1 ollama serve"},
          {"keep fewer layers on the GPU", "/set parameter num_gpu N  # below GPULayers in the server's log",
           "", "!stay, !on_host"},
          {"use a model with fewer bits or parameters (q4_K_M takes about half of q8_0)",
           "ollama pull MODEL:TAG"},
          {"add swap, which Ollama counts as available (slow when used)",
           "sudo fallocate -l {swap_size} /swapfile && sudo chmod 600 /swapfile && sudo mkswap /swapfile && "
           "sudo swapon /swapfile",
           "", "on_host, !swap_free_bytes>0"}};
}

std::vector<Explanation> ollama_explanations() {
  const auto explained = [](std::string_view when, std::string_view title, std::string_view cause) {
    return Explanation{.when = when,
                       .id = "ollama-out-of-memory",
                       .confidence = Confidence::certain,
                       .title = title,
                       .cause = cause,
                       .cures = ollama_cures()};
  };
  return {
      explained("subject=ollama refusal, wanted=layout, gpu_layers",
                "Ollama could not place a model with {gpu_layers} layers on the GPU",
                "The GPU's free memory is too small for that many layers (num_gpu)."),
      explained("subject=ollama refusal, wanted=layout",
                "Ollama could not place a model on the GPU and in the host's memory",
                "No split of the model's layers between the GPU and the host fits in the free memory."),
      explained(
          "subject=ollama refusal, requested_bytes, available_bytes",
          "Ollama refused to load a model: it needs {requested_bytes} of the host's memory, but "
          "{available_bytes} are available",
          "The part of the model on the host is {requested_bytes-available_bytes} larger than the host's "
          "free memory and free swap together."),
      explained("subject=ollama refusal", "Ollama refused to load a model: it is too large for the system",
                "The model is larger than the host's free memory and free swap together.")};
}

// What Ollama prints while it loads a model: that the log is Ollama's, and figures for its refusals.
LogRule ollama_context_rule() {
  return {.name = "ollama-context",
          .anchors = {"s.offload=", "CacheType:", "msg=\"kv cache\" device=", "--ctx-size ",
                      "_swap=", "OLLAMA_NUM_PARALLEL:", "msg=\"llama runner started in "},
          .read_first = read_ollama_context,
          .context_of = "ggml",
          .answers = "ggml"};
}

}  // namespace headroom::doctor
