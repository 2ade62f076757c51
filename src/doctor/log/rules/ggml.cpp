// ggml (llama.cpp, whisper.cpp, stable-diffusion.cpp, Ollama): a buffer on the GPU, or memory of the host.
#include <algorithm>

#include "base/text.h"
#include "doctor/cure_commands.h"
#include "doctor/log/common_cures.h"
#include "doctor/log/line_pattern.h"
#include "doctor/log/log_retry.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"
#include "doctor/log/rules/ggml_figures.h"
#include "doctor/log/rules/ollama.h"

namespace headroom::doctor {
namespace {

// What does not say of which memory it is goes with a message whose subject begins with its own: Vulkan's
// words, which any program may have, with ggml's near them, but not with a note about pinned memory.
constexpr std::string_view kOnVulkan = "mem", kOnDevice = "memory", kOnHost = "memory of the host";

void set_host(LogMessage& message) {
  message.subject = kOnHost;
  message.add("memory", "host");
}

// ggml ends the program where malloc failed: "GGML_ASSERT: …/ggml-backend.c:460: data != NULL && …",
// "…/ggml.c:1516: GGML_ASSERT(ctx->mem_buffer != NULL) failed". Its source code ends otherwise.
bool is_failed_assert(std::string_view line) { return has(line, "GGML_ASSERT: ") || has(line, ") failed"); }

bool is_pinned_refusal(std::string_view line) {
  return has(line, " of pinned memory") || (has(line, "ggml_") && has(line, "pinned memory")) ||
         has(line, "ggml_cuda_host_malloc");
}

// "ggml_vulkan: Failed to allocate pinned memory." has Vulkan's words on the next line, or in brackets.
void add_reason_of_pinned(std::string_view line, LogMessage& message) {
  if (has(line, "ErrorOutOf"))
    message.add("reason", "ErrorOutOfDeviceMemory");
  else if (const auto reason = text_after(line, "pinned memory: "); reason && !has(*reason, "out of memory"))
    message.add("reason", trim(*reason));
  message.may_go_on = has(line, "ggml_vulkan") && message.text("reason").empty();
}

// The functions that refuse a buffer, in which words the refusal is.
bool is_buffer_refusal(std::string_view line) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"alloc_buffer: allocating ", "failed"},
      {"ggml", "error: failed to allocate buffer, size ="},  // of Metal
      {"alloc_buffer: failed to allocate buffer of size ", ""},
      {"failed to allocate buffer for kv cache", ""},
      {"failed to allocate memory for the kv cache", ""},
      {"ggml_aligned_malloc: insufficient memory", ""},
      {"ErrorOutOfDeviceMemory", ""},
      {"ggml", "ErrorOutOfHostMemory"}};
  const bool is_vulkan =
      has(line, "ggml_vulkan") && has(line, "emory allocation of size ") && has(line, "failed");
  return is_vulkan || std::any_of(std::begin(kPairs), std::end(kPairs), [line](const auto& pair) {
           return has(line, pair.first) && has(line, pair.second);
         });
}
bool is_range_refusal(std::string_view line) {
  return (has(line, "alloc_tensor_range") || has(line, "ggml_gallocr_reserve")) &&
         has(line, "failed to allocate");
}
bool is_any_refusal(std::string_view line) { return is_buffer_refusal(line) || is_range_refusal(line); }

void add_size_of_buffer(std::string_view line, LogMessage& message) {
  const auto match = [&](std::string_view pattern) { return match_pattern(pattern, line, message); };
  message.is_rounded =
      !match("buffer of size {requested_bytes}") && !match("emory allocation of size {requested_bytes}");
  if (message.is_rounded && !match("allocating {requested_bytes}") &&
      !match("attempted to allocate {requested_bytes}"))
    match("failed to allocate buffer, size ={requested_bytes}");
}

void add_buffer(std::string_view line, LogMessage& message) {
  const auto match = [&](std::string_view pattern) { return match_pattern(pattern, line, message); };
  message.subject = kOnDevice;
  add_size_of_buffer(line, message);
  match("on device {gpu:int}");
  for (const std::string_view pattern : {"allocate CUDA{gpu:int} buffer", "allocate ROCm{gpu:int} buffer",
                                         "allocate Vulkan{gpu:int} buffer", "allocate SYCL{gpu:int} buffer"})
    match(pattern);
  if (has(line, "exceeds device buffer size limit")) message.add("reason", "larger than one buffer may be");
  if (has(line, "ggml_backend_cpu") || has(line, "CPU buffer") || has(line, "ggml_aligned_malloc") ||
      has(line, "ErrorOutOfHostMemory"))
    set_host(message);
  const bool is_cache = has(line, "for kv cache") || has(line, "for the kv cache");
  message.part = is_cache                              ? "cache"
                 : has(line, "ErrorOutOfDeviceMemory") ? "vulkan"
                 : has(line, "ggml_aligned_malloc")    ? "malloc"
                 : is_buffer_refusal(line)             ? "buffer"
                 : has(line, "alloc_tensor_range")     ? "tensors"
                                                       : "graph";
  message.is_vague = is_cache;  // on the GPU or the host, as the line before tells
  if (has(line, "ggml_gallocr_reserve")) message.add("wanted", "compute buffer");
  if (is_cache) message.add("wanted", "key-value cache");
}

// Ollama's line, by what stands around it: the journal's or Docker's name of it, its runner.
bool is_ollama_line(std::string_view line) {
  return has(line, "ollama[") || has(line, "/ollama] ") || source_of(line).starts_with("ollama");
}

void add_program(std::string_view line, LogMessage& message) {
  if (is_ollama_line(line) && !message.ends_program) message.add_absent(Figure{"runtime", "ollama"});
  message.add("program", ggml_program_of(line));
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

// What the program makes of ggml's refusal, behind it: it tells what was wanted.
std::vector<Wording> program_wordings() {
  const LineTraits vague{.is_vague = true};
  const auto row = [&](std::vector<std::string_view> all, std::string_view part, std::string_view wanted) {
    return Wording{.all = std::move(all),
                   .none = {"DEBUG"},
                   .figures = {wanted},
                   .subject = kOnDevice,
                   .part = part,
                   .traits = vague};
  };
  constexpr std::string_view kCompute = "wanted=compute buffer", kWeights = "wanted=weights";
  return {row({"graph_reserve: failed to allocate compute buffers"}, "reserve", kCompute),
          row({"failed to initialize the context: failed to allocate compute "}, "context", kCompute),
          row({": failed to allocate compute buffers", "_context"}, "context", kCompute),
          row({": failed to allocate the compute buffer"}, "compute", kCompute),
          row({"whisper_init_state: failed to allocate memory for the compute buffer"}, "compute", kCompute),
          row({"whisper_model_load: failed to allocate memory for the model"}, "load", kWeights),
          row({"alloc params backend buffer failed"}, "load", kWeights)};
}

constexpr CureRow kMapFile{"map the model's file instead of reading it", "leave out --no-mmap and --mlock",
                           "", "memory=host"},
    kFewerBits{"use a model with fewer bits per weight (Q4_K_M takes about half of Q8_0)"};
constexpr std::string_view kBelowItsLayers = "-ngl N, below the layers in its log",
                           kFewerLayers = "keep fewer layers on the GPU",
                           kHalveContext = "halve the context: the key-value cache shrinks with it",
                           kCacheIn8Bits =
                               "store the key-value cache in 8 bits (half of f16; before September 2025, "
                               "write -fa instead of -fa on)[[; this is not enough alone: add -c "
                               "{tokens_in_8_bits}]]",
                           kCacheFlags = "-fa on -ctk q8_0 -ctv q8_0",
                           kKeepAtMost =
                               "keep at most {stay} layers on the GPU: this makes memory free for the buffer "
                               "and for the allocations that follow";

std::vector<CureRow> cache_cures() {
  return {
      {"shorten the context to fit in {room_bytes}; the compute buffer needs memory too, so choose a shorter "
       "one "
       "if that fails next",
       "-c {tokens}", "saved_by_tokens_bytes"},
      {kHalveContext, "{half_context_flag}", "requested_bytes/2", "half_context"},
      {kCacheIn8Bits, kCacheFlags, "saved_by_8_bits_bytes"},
      kMapFile,
      {"keep at most {stay} layers on the GPU: the weights and cache of the others move to the host's memory "
       "(slower)",
       "-ngl {stay}", "freed_bytes", "memory!=host"},
      {kFewerLayers, kBelowItsLayers, "", "memory!=host, !stay"},
      kFewerBits};
}

std::vector<CureRow> weights_cures() {
  return {{kKeepAtMost, "-ngl {stay}", "freed_bytes"},
          {"keep half of the {gpu_layers} layers on the GPU", "-ngl {gpu_layers/2}", "requested_bytes/2",
           "!stay, gpu_layers>1"},
          {kFewerLayers, kBelowItsLayers, "", "!stay, !gpu_layers>1"},
          kFewerBits,
          kSeeOthersOnGpu};
}

std::vector<CureRow> buffer_cures() {
  return {{kKeepAtMost, "-ngl {stay}", "freed_bytes"},
          {"build it without pipeline parallelism, which stores {pipeline_copies} copies of the inputs of a "
           "computation",
           "cmake -B build -DGGML_SCHED_MAX_COPIES=1", "", "pipelined"},
          {kHalveContext, "{half_context_flag}", "kv_cache_bytes/2"},
          {kCacheIn8Bits, kCacheFlags, "kv_cache_bytes/2"},
          kMapFile,
          {kFewerLayers, kBelowItsLayers, "", "memory!=host, !stay, !pipelined"},
          {"halve the micro-batch: the compute buffer shrinks with it", "{half_batch_flag}",
           "requested_bytes/2", "wanted=compute buffer, requested_bytes"},
          {"use smaller micro-batches", "{half_batch_flag}", "", "!requested_bytes"},
          {"use smaller micro-batches", "{half_batch_flag}", "", "wanted!=compute buffer, requested_bytes"},
          kFewerBits};
}

// The other programs have flags of their own, and none of llama.cpp's.
std::vector<CureRow> whisper_cures() {
  return {{"use a smaller model: medium takes half of large, small a sixth",
           "./models/download-ggml-model.sh medium"},
          {"use a quantized model: q5_0 takes about a third of f16",
           "./build/bin/quantize MODEL.bin MODEL-q5_0.bin q5_0"},
          {"compute on the CPU", "-ng", "", "memory!=host, subject!=pool"},
          {"see which other processes hold the memory", "headroom top"}};
}
std::vector<CureRow> diffusion_cures() {
  constexpr CureRow kTiles{"decode the image in tiles", "--vae-tiling"};
  return {{"use weights with fewer bits", "--type q8_0", "", "wanted=weights"},
          kTiles,
          {"keep the text encoders off the GPU", "--clip-on-cpu", "", "memory!=host, subject!=pool"},
          {"keep the VAE off the GPU (slow)", "--vae-on-cpu", "", "memory!=host, subject!=pool"},
          {"generate a smaller image", "-W 512 -H 512", "", "wanted!=weights"},
          {"use weights with fewer bits", "--type q8_0", "", "wanted!=weights"}};
}

std::vector<Explanation> pinned_explanations() {
  const auto explained = [](std::string_view when, std::string_view cause, CureRow cure) {
    return Explanation{.when = when,
                       .id = "ggml-pinned-memory",
                       .severity = Severity::note,
                       .title = "ggml could not pin [[{requested_bytes} of ]]host memory",
                       .cause = cause,
                       .cures = {cure}};
  };
  constexpr std::string_view kPageable =
      "The program continues with pageable memory. On a Jetson, pinned memory saves no significant copy.";
  return {explained("subject=pinned, reason~device is detected",
                    "CUDA found no GPU, so the program continues on the CPU. Memory did not run out.",
                    {"check whether the driver sees the GPU", "nvidia-smi"}),
          explained("subject=pinned, reason~ErrorOutOf", kPageable,
                    {"see the driver's largest allocation", kSeeVulkanLimits}),
          explained("subject=pinned", kPageable, {"disable pinned memory", "GGML_CUDA_NO_PINNED=1"})};
}

constexpr std::string_view kGgmlId = "ggml-out-of-memory",
                           kGgmlTitle = "{who} could not allocate {what} {where}";

Explanation explained_ggml(std::string_view when, std::string_view cause, std::vector<CureRow> cures) {
  return {.when = when, .id = kGgmlId, .title = kGgmlTitle, .cause = cause, .cures = std::move(cures)};
}

// A graph's pool has a fixed size, which the program computed.
std::vector<Explanation> pool_explanations() {
  constexpr CureRow kNewer{"use a build that computes the pool's size (llama.cpp and whisper.cpp since 2023)",
                           "git pull"};
  const auto explained = [&](std::string_view when, std::vector<CureRow> cures) {
    cures.push_back(kNewer);
    return Explanation{
        .when = when,
        .id = kGgmlId,
        .title =
            "ggml's pool for a graph was too small: the graph needs {requested|some memory}, the pool has "
            "{available_bytes|some memory}",
        .cause = "The program set the pool's size before it knew the graph. More memory would not help.",
        .cures = std::move(cures)};
  };
  return {explained("subject=pool, program=whisper.cpp", whisper_cures()),
          explained("subject=pool, program=stable-diffusion.cpp", diffusion_cures()),
          explained("subject=pool", {{"use smaller micro-batches, which need a smaller graph", "-ub 128"}})};
}

std::vector<Explanation> buffer_explanations() {
  constexpr CureRow kNewer{"use a newer build, which may compute the size correctly", "git pull"};
  return {
      explained_ggml("wrong_size, program", "{cause_of_wrong_size}", {kNewer}),
      explained_ggml(
          "wrong_size", "{cause_of_wrong_size}",
          {{"use a smaller context and batch: the size is computed from them", "-c 4096 -b 512 -ub 512"},
           kNewer}),
      explained_ggml("runtime=ollama, wanted=weights", "The model's layers did not fit in the free memory.",
                     ollama_cures()),
      explained_ggml("runtime=ollama, wanted=key-value cache",
                     "The key-value cache[[ of {context_length} tokens]] did not fit in the free memory.",
                     ollama_cures()),
      explained_ggml(
          "runtime=ollama",
          "A model's layers, its key-value cache or the buffer of a batch did not fit in the free memory.",
          ollama_cures()),
      explained_ggml("program=whisper.cpp, wanted=key-value cache",
                     "The key-value cache did not fit in the free memory.", whisper_cures()),
      explained_ggml("program=whisper.cpp, wanted=weights",
                     "The model's weights did not fit in the free memory.", whisper_cures()),
      explained_ggml("program=whisper.cpp",
                     "The model's weights or its compute buffers did not fit in the free memory.",
                     whisper_cures()),
      explained_ggml("program=stable-diffusion.cpp, wanted=weights",
                     "The model's weights did not fit in the free memory.", diffusion_cures()),
      explained_ggml("program=stable-diffusion.cpp",
                     "The model's weights or its compute buffers did not fit in the free memory.",
                     diffusion_cures()),
      {.when = "reason=larger than one buffer may be",
       .id = kGgmlId,
       .confidence = Confidence::certain,
       .title = kGgmlTitle,
       .cause =
           "One buffer is larger than the driver's limit for a single allocation. More free memory would not "
           "help.",
       .cures = buffer_cures()},
      {.when = "wanted=key-value cache, room_bytes",
       .id = kGgmlId,
       .title = kGgmlTitle,
       .cause = "The key-value cache[[ of {context_length} tokens]] did not fit: the weights left "
                "{room_bytes} of the "
                "{free_bytes} that were free.",
       .cures = cache_cures(),
       .first_cure_meets_cause = true},
      explained_ggml("wanted=key-value cache",
                     "The key-value cache[[ of {context_length} tokens]] did not fit in the free memory.",
                     cache_cures()),
      explained_ggml("wanted=weights", "The model's layers did not fit in the free memory.", weights_cures()),
      explained_ggml(
          "",
          "A model's layers, its key-value cache or the buffer of a batch did not fit in the free memory.",
          buffer_cures())};
}

}  // namespace

LogRule ggml_rule() {
  LogRule rule{.name = "ggml", .derive = derive_ggml, .add = add_program};
  const std::vector<Wording> memory{
      // llama.cpp's growing pool: "CUDA error: out of memory  current device: 0, in function alloc at …".
      {.all = {"out of memory", "ggml-cuda", "current device: {gpu:int}"},
       .subject = kOnDevice,
       .part = "gpu pool"},
      {.all = {"not enough space in the context's memory pool"},
       .figures = {"(needed {requested_bytes}", ", available {available_bytes}"},
       .subject = "pool"},
      {.all = {"GGML_ASSERT"},
       .any = {"ctx->mem_buffer != NULL", " && \"failed to allocate buffer\""},
       .figures = {"memory=host"},
       .subject = kOnHost,
       .part = "assert",
       .check = is_failed_assert}};
  const std::vector<Wording> refusals{
      // The words of Vulkan's C++ header: "what():  vk::Device::allocateMemory: ErrorOutOfDeviceMemory".
      {.all = {"ErrorOutOfDeviceMemory"},
       .none = {"ggml", "llama"},
       .subject = kOnVulkan,
       .part = "vulkan",
       .traits = {.is_vague = true}},
      {.all = {"ailed to allocate "},
       .none = {" buffer of size "},
       .figures = {"ailed to allocate {requested_bytes}"},
       .subject = "pinned",
       .check = is_pinned_refusal,
       .add = add_reason_of_pinned},
      // On a Mac.
      {.all = {"kIOGPUCommandBufferCallbackErrorOutOfMemory"},
       .figures = {"wanted=compute buffer"},
       .subject = kOnDevice,
       .part = "metal"},
      {.all = {"error loading model: unable to allocate "},
       .figures = {"wanted=weights"},
       .subject = kOnDevice,
       .part = "load"},
      {.all = {}, .check = is_any_refusal, .add = add_buffer}};
  rule.wordings = joined<Wording>({ollama_wordings(), memory, program_wordings(), refusals});
  rule.anchors = {"alloc_tensor_range",
                  "_alloc_buffer:",
                  "ggml_gallocr_reserve",
                  "failed to allocate buffer for kv",
                  "ggml_aligned_malloc",
                  "ggml_vulkan",
                  "failed to allocate buffer, size",
                  "memory for the kv cache",
                  "OutOfHostMemory",
                  "ggml_cuda_host_malloc",
                  "e pinned memory",
                  "of pinned memory"};
  Explanation vulkan = vulkan_device_explanation();
  vulkan.when = "subject=mem, !is_of_ggml";
  rule.explanations = joined<Explanation>(
      {ollama_explanations(), {vulkan}, pinned_explanations(), pool_explanations(), buffer_explanations()});
  return rule;
}

// What llama.cpp and its like print while they load: the figures that their refusals lack, which program it
// is, and that it tries again with less.
LogRule ggml_context_rule() {
  return {.name = "ggml-context",
          .anchors = {"isper_", "-diffusion.cpp", "ggml_extend.hpp", " layers to GPU", ": n_layer ",
                      ": n_ctx ", ": n_ubatch ", "model buffer size =", "KV buffer size =", "using device ",
                      "retrying without pipeline parallelism", "ggml_vulkan", "d Vulkan backend",
                      "ama_model_loader: ", "l: KV self size", "t: KV self size", "lama_kv_cache",
                      "lelism enabled (n_copies"},
          .read_first = read_ggml_context,
          .context_of = "ggml",
          .answers = "ggml"};
}

}  // namespace headroom::doctor
