// ggml (llama.cpp, whisper.cpp, stable-diffusion.cpp): a buffer on the GPU, or pinned memory of the host.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "doctor/log/ggml_cache.h"
#include "doctor/log/ggml_layers.h"
#include "doctor/log/ggml_programs.h"
#include "doctor/log/message_text.h"
#include "doctor/log/ollama_messages.h"
#include "doctor/log/requested_size.h"
#include "doctor/log/rules.h"
#include "doctor/log/vulkan_messages.h"

namespace headroom::doctor {
namespace {

// Subjects. What does not tell of which memory it is goes with a message whose subject begins with its own:
// of Vulkan's words, which any program may have, with one of ggml's that stands near, and never with a note
// about pinned memory.
constexpr const char *kVulkan = "mem", *kDevice = "memory", *kHost = "memory of the host",
                     *kPinned = "pinned", *kPool = "pool";

constexpr std::string_view kOfData = " && \"failed to allocate buffer\"";
// Why a buffer was refused, where more memory is no answer.
constexpr std::string_view kOnePiece = "larger than one buffer may be";

// Where the line that tells it comes behind one that does not, only its figure gets into the event.
void mark_host(LogMessage& message) {
  message.subject = kHost;
  message.add("memory", "host");
}
bool is_of_host(const LogMessage& message) { return message.text("memory") == "host"; }

// llama.cpp's growing pool on the GPU, whose words the CUDA driver's are; the next line tells where, and is
// put behind it: "CUDA error: out of memory  current device: 0, in function alloc at …/ggml-cuda.cu:514".
std::optional<LogMessage> read_gpu_pool(std::string_view line) {
  if (!has(line, "out of memory") || !has(line, "current device: ") || !has(line, "ggml-cuda"))
    return std::nullopt;
  LogMessage message;
  message.subject = kDevice;
  message.add("gpu", integer_after(line, "current device: "));
  message.part = "gpu pool";
  return message;
}

// "ggml_new_object: not enough space in the context's memory pool (needed 337076992, available 268435456)":
// of a fixed size, which the program computed.
std::optional<LogMessage> read_pool(std::string_view line) {
  if (!has(line, "not enough space in the context's memory pool")) return std::nullopt;
  LogMessage message;
  message.subject = kPool;
  message.add("requested_bytes", size_after(line, "(needed "));
  message.add("available_bytes", size_after(line, ", available "));
  return message;
}

// ggml ends the program where malloc gave nothing: "GGML_ASSERT: …/ggml-backend.c:460: data != NULL &&
// "failed to allocate buffer"", "…/ggml.c:1516: GGML_ASSERT(ctx->mem_buffer != NULL) failed". Both are of the
// host's memory. The source of it ends otherwise.
std::optional<LogMessage> read_assert(std::string_view line) {
  const bool is_buffer = has(line, "ctx->mem_buffer != NULL"), is_data = has(line, kOfData);
  const bool is_failed = has(line, "GGML_ASSERT: ") || has(line, ") failed");
  if (!is_failed || !has(line, "GGML_ASSERT") || !(is_buffer || is_data)) return std::nullopt;
  LogMessage message;
  mark_host(message);
  message.part = "assert";
  return message;
}

// ggml's buffers in the host's memory that the GPU reads without a copy: "ggml_cuda_host_malloc: failed to
// allocate 1034.00 MiB of pinned memory: no CUDA-capable device is detected", "ggml_vulkan: Failed to
// allocate pinned memory." with Vulkan's words on the next line, or in brackets behind it.
std::optional<LogMessage> read_pinned(std::string_view line) {
  if (has(line, " buffer of size ")) return std::nullopt;
  const bool is_pinned = has(line, " of pinned memory") || (has(line, "ggml_") && has(line, "pinned memory"));
  if (!is_pinned && !has(line, "ggml_cuda_host_malloc")) return std::nullopt;
  const auto failed = text_after(line, "ailed to allocate ");
  if (!failed) return std::nullopt;
  LogMessage message;
  message.subject = kPinned;
  message.add("requested_bytes", leading_size(*failed));
  if (has(line, "ErrorOutOf")) {
    message.add("reason", "ErrorOutOfDeviceMemory");
  } else if (const auto reason = text_after(line, "pinned memory: ");
             reason && !has(*reason, "out of memory")) {
    message.add("reason", trim(*reason));
  }
  message.may_go_on = has(line, "ggml_vulkan") && message.text("reason").empty();
  return message;
}

// "failed to allocate CUDA4 buffer of size 150995968", "… Vulkan0 buffer …"
std::optional<std::int64_t> gpu_of_buffer(std::string_view line) {
  for (const std::string_view name : {"allocate CUDA", "allocate ROCm", "allocate Vulkan", "allocate SYCL"})
    if (const auto rest = text_after(line, name))
      if (const std::size_t end = rest->find_first_not_of("0123456789");
          end != rest->npos && end > 0 && rest->substr(end).starts_with(" buffer"))
        return integer_after(*rest, "");
  return std::nullopt;
}

// What the program makes of ggml's refusal, behind it, if that is in the log: it tells what was wanted.
std::optional<LogMessage> read_program(std::string_view line) {
  LogMessage message;
  message.subject = kDevice;
  message.is_vague = true;
  // Of llama.cpp's context: "failed to allocate compute buffers"; "llama_init_from_model: failed to
  // initialize the context: failed to allocate compute pp buffers" since 2025, with "graph_reserve: …"
  // before.
  const bool is_reserve = has(line, "graph_reserve: failed to allocate compute buffers");
  if (is_reserve || has(line, "failed to initialize the context: failed to allocate compute ") ||
      (has(line, ": failed to allocate compute buffers") && has(line, "_context"))) {
    message.part = is_reserve ? "reserve" : "context";
    message.add("wanted", "compute buffer");
    return message;
  }
  // "whisper_sched_graph_init: failed to allocate the compute buffer", "vae: failed to …" of
  // stable-diffusion.cpp, and so others.
  const bool is_compute = has(line, ": failed to allocate the compute buffer") ||
                          has(line, "whisper_init_state: failed to allocate memory for the compute buffer");
  if (is_compute && !has(line, "DEBUG")) {
    message.part = "compute";
    message.add("wanted", "compute buffer");
    return message;
  }
  if (has(line, "whisper_model_load: failed to allocate memory for the model") ||
      has(line, "alloc params backend buffer failed")) {
    message.part = "load";
    message.add("wanted", "weights");
    return message;
  }
  return std::nullopt;
}

// "what():  vk::Device::allocateMemory: ErrorOutOfDeviceMemory": the words of Vulkan's C++ header.
std::optional<LogMessage> read_vulkan(std::string_view line) {
  if (!has(line, "ErrorOutOfDeviceMemory") || has(line, "ggml") || has(line, "llama")) return std::nullopt;
  LogMessage message;
  message.subject = kVulkan;
  message.is_vague = true;
  message.part = "vulkan";
  return message;
}

std::optional<LogMessage> read_ggml(std::string_view line) {
  for (const auto& read_form :
       {read_gpu_pool, read_pool, read_assert, read_program, read_vulkan, read_pinned})
    if (auto message = read_form(line)) return message;
  LogMessage message;
  message.subject = kDevice;
  // On a Mac: "error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)".
  if (has(line, "kIOGPUCommandBufferCallbackErrorOutOfMemory")) {
    message.part = "metal";
    message.add("wanted", "compute buffer");
    return message;
  }
  const bool is_buffer =
      (has(line, "alloc_buffer: allocating ") && has(line, "failed")) ||
      (has(line, "ggml") && has(line, "error: failed to allocate buffer, size =")) ||  // of Metal
      has(line, "alloc_buffer: failed to allocate buffer of size ") ||
      has(line, "failed to allocate buffer for kv cache") ||
      has(line, "failed to allocate memory for the kv cache") ||
      has(line, "ggml_aligned_malloc: insufficient memory") ||
      (has(line, "ggml_vulkan") && has(line, "emory allocation of size ") && has(line, "failed")) ||
      has(line, "ErrorOutOfDeviceMemory") || (has(line, "ggml") && has(line, "ErrorOutOfHostMemory"));
  const bool is_range = has(line, "alloc_tensor_range") || has(line, "ggml_gallocr_reserve");
  // What llama.cpp makes of it while it loads the model's layers.
  if (has(line, "error loading model: unable to allocate ")) {
    message.part = "load";
    message.add("wanted", "weights");
    return message;
  }
  if (!is_buffer && !(is_range && has(line, "failed to allocate"))) return std::nullopt;
  const auto add_first = [&](const auto& all) {
    return std::any_of(std::begin(all), std::end(all), [&](std::string_view words) {
      return add_requested(message, text_after(line, words));
    });
  };
  constexpr std::string_view kExact[] = {"buffer of size ", "emory allocation of size "};
  constexpr std::string_view kRounded[] = {"allocating ", "attempted to allocate ",
                                           "failed to allocate buffer, size ="};
  message.is_rounded = !add_first(kExact);
  if (message.is_rounded) add_first(kRounded);
  auto gpu = integer_after(line, "on device ");
  if (!gpu) gpu = gpu_of_buffer(line);
  message.add("gpu", gpu);
  if (has(line, "exceeds device buffer size limit")) message.add("reason", kOnePiece);
  if (has(line, "ggml_backend_cpu") || has(line, "CPU buffer") || has(line, "ggml_aligned_malloc") ||
      has(line, "ErrorOutOfHostMemory"))
    mark_host(message);
  message.part = has(line, "ErrorOutOfDeviceMemory") ? "vulkan"
                 : has(line, "ggml_aligned_malloc")  ? "malloc"
                 : is_buffer                         ? "buffer"
                 : has(line, "alloc_tensor_range")   ? "tensors"
                                                     : "graph";
  if (has(line, "failed to allocate buffer for kv cache") || has(line, "memory for the kv cache")) {
    message.part = "cache";  // on the GPU or the host, as the line before tells
    message.is_vague = true;
  }
  if (has(line, "ggml_gallocr_reserve")) message.add("wanted", "compute buffer");
  if (has(line, "for kv cache") || has(line, "for the kv cache")) message.add("wanted", "key-value cache");
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  if (auto own = read_ollama(line)) {
    if (own->subject.empty()) own->subject = kDevice;
    return own;
  }
  auto message = read_ggml(line);
  if (message && is_ollama_line(line)) message->add("runtime", "ollama");
  if (message) message->add("program", ggml_program_of(line));
  return message;
}

// By the figures that llama.cpp printed before (ggml_context_rule.cpp), where the log has them.
void add_cures(const LogMessage& message, Finding& finding) {
  const auto context = message.number("context_length"), batch = message.number("micro_batch");
  const auto cache = message.bytes("kv_cache_bytes");
  const std::optional<Bytes> half_cache = cache ? std::optional(Bytes{cache->count / 2}) : std::nullopt;
  auto& cures = finding.cures;
  const bool is_host = is_of_host(message);
  const auto layers = is_host ? std::nullopt : layers_that_fit(message);
  if (is_of_ollama(message)) return add_ollama_cures(message, layers, is_host, cures);
  if (add_ggml_program_cures(message, is_host, cures)) return;
  if (is_cache_refused(message)) return add_cache_cures(message, is_host, finding);
  if (layers)
    cures.push_back({fmt::format("keep at most {} layers on the GPU: this makes memory free for the buffer "
                                 "and for the allocations that follow",
                                 layers->stay),
                     fmt::format("-ngl {}", layers->stay), layers->freed});
  if (message.text("wanted") == "weights") {
    const auto on_gpu = message.number("gpu_layers");
    if (cures.empty() && on_gpu && *on_gpu > 1)
      cures.push_back({fmt::format("keep half of the {} layers on the GPU", *on_gpu),
                       fmt::format("-ngl {}", *on_gpu / 2),
                       Bytes{message.bytes("requested_bytes").value_or(Bytes{}).count / 2}});
    else if (cures.empty())
      cures.push_back({"keep fewer layers on the GPU", "-ngl N, below the layers in its log", {}});
    cures.push_back({"use a model with fewer bits per weight (Q4_K_M takes about half of Q8_0)", "", {}});
    cures.push_back({"see which other processes hold GPU memory", "headroom top", {}});
    return;
  }
  const bool is_compute = message.text("wanted") == "compute buffer";
  const std::int64_t copies = message.number("pipeline_copies").value_or(1);
  if (is_compute && copies > 1)
    cures.push_back(
        {fmt::format(
             "build it without pipeline parallelism, which stores {} copies of the inputs of a computation",
             copies),
         "cmake -B build -DGGML_SCHED_MAX_COPIES=1",
         {}});
  cures.push_back(
      {"halve the context: the key-value cache shrinks with it",
       context && *context > 1 ? fmt::format("-c {}", *context / 2) : "-c N, half of n_ctx in its log",
       half_cache});
  cures.push_back(
      {"store the key-value cache in 8 bits (half of f16; before September 2025, write -fa instead of -fa "
       "on)",
       "-fa on -ctk q8_0 -ctv q8_0", half_cache});
  if (is_host)
    cures.push_back({"map the model's file instead of reading it", "leave out --no-mmap and --mlock", {}});
  else if (cures.size() < 3)
    cures.push_back({"keep fewer layers on the GPU", "-ngl N, below the layers in its log", {}});
  const auto requested = message.bytes("requested_bytes");
  const std::string half_batch =
      batch && *batch > 1 ? fmt::format("-ub {}", *batch / 2) : "-ub N, half of n_ubatch in its log";
  if (is_compute && requested)
    cures.push_back({"halve the micro-batch: the compute buffer shrinks with it", half_batch,
                     Bytes{requested->count / 2}});
  else
    cures.push_back({"use smaller micro-batches", half_batch, {}});
  cures.push_back({"use a model with fewer bits per weight (Q4_K_M takes about half of Q8_0)", "", {}});
}

std::string cause_of(const LogMessage& message) {
  if (message.text("reason") == kOnePiece)
    return "One buffer is larger than the driver's limit for a single allocation. More free memory would not "
           "help.";
  if (is_cache_refused(message)) return cause_of_cache(message, is_of_host(message));
  const bool is_weights = message.text("wanted") == "weights";
  if (!message.text("program").empty())
    return is_weights ? "The model's weights did not fit in the free memory."
                      : "The model's weights or its compute buffers did not fit in the free memory.";
  return is_weights ? "The model's layers did not fit in the free memory."
                    : "A model's layers, its key-value cache or the buffer of a batch did not fit in the "
                      "free memory.";
}

Finding explain(const LogMessage& message) {
  if (is_ollama_refusal(message)) return explain_ollama(message);
  const std::string size = words_for_requested(message);
  Finding finding;
  if (message.subject == kVulkan && !is_of_ggml(message)) return explain_vulkan(message);
  if (message.subject == kPinned) {
    finding.id = "ggml-pinned-memory";
    finding.severity = Severity::note;
    finding.title = message.bytes("requested_bytes")
                        ? fmt::format("ggml could not pin {} of host memory", size)
                        : "ggml could not pin host memory";
    finding.cause =
        "The program continues with pageable memory. On a Jetson, pinned memory saves no significant copy.";
    finding.confidence = Confidence::likely;
    finding.cures = {{"disable pinned memory", "GGML_CUDA_NO_PINNED=1", {}}};
    if (has(message.text("reason"), "device is detected")) {
      finding.cause = "CUDA found no GPU, so the program continues on the CPU. Memory did not run out.";
      finding.cures = {{"check whether the driver sees the GPU", "nvidia-smi", {}}};
    }
    if (has(message.text("reason"), "ErrorOutOf"))  // Vulkan has no such variable
      finding.cures = {{"see the driver's largest allocation",
                        "vulkaninfo | grep -E 'maxMemoryAllocationSize|heapSize|size.*GiB'",
                        {}}};
    return finding;
  }
  finding.id = "ggml-out-of-memory";
  finding.severity = Severity::severe;
  if (message.subject == kPool) {
    finding.title = fmt::format("ggml's pool for a graph was too small: the graph needs {}, the pool has {}",
                                size, words_for(message.bytes("available_bytes")));
    finding.cause = "The program set the pool's size before it knew the graph. More memory would not help.";
    finding.confidence = Confidence::likely;
    const Cure newer{
        "use a build that computes the pool's size (llama.cpp and whisper.cpp since 2023)", "git pull", {}};
    if (!add_ggml_program_cures(message, true, finding.cures))
      finding.cures = {{"use smaller micro-batches, which need a smaller graph", "-ub 128", {}}};
    finding.cures.push_back(newer);
    return finding;
  }
  const std::string wanted = message.text("wanted");
  const bool is_size_told = !words_for_requested(message, "").empty();
  const std::string buffer = is_size_told && is_cache_refused(message) ? "its " + wanted + " of " + size
                             : is_size_told                            ? "a buffer of " + size
                             : wanted.empty() || wanted == "weights"   ? "a buffer"
                                                                       : "its " + wanted;
  const std::string program = is_of_ollama(message) ? "Ollama" : message.text("program");
  const auto gpu = message.number("gpu");
  finding.title =
      fmt::format("{} could not allocate {} {}", program.empty() ? "ggml" : program + " (ggml)", buffer,
                  is_of_host(message) ? "in the host's memory"
                  : gpu && *gpu > 0   ? fmt::format("on GPU {}", *gpu)
                                      : "on the GPU");
  if (has_wrong_size(message)) {
    finding.cause = cause_of_wrong_size(message);
    finding.confidence = Confidence::likely;
    finding.cures = {{"use a newer build, which may compute the size correctly", "git pull", {}}};
    if (message.text("program").empty())
      finding.cures.insert(
          finding.cures.begin(),
          {"use a smaller context and batch: the size is computed from them", "-c 4096 -b 512 -ub 512", {}});
    return finding;
  }
  finding.cause = cause_of(message);
  finding.confidence = message.text("reason") == kOnePiece ? Confidence::certain : Confidence::likely;
  add_cures(message, finding);
  return finding;
}

}  // namespace

LogRule ggml_rule() {
  LogRule rule{"ggml",
               {"alloc_tensor_range",
                "_alloc_buffer:",
                "ggml_gallocr_reserve",
                "ggml_cuda_host_malloc",
                "of pinned memory",
                "failed to allocate buffer for kv cache",
                "ggml_aligned_malloc",
                "ggml_vulkan",
                "ErrorOutOfDeviceMemory",
                "ggml-cuda",
                "context's memory pool",
                "failed to allocate compute ",
                "failed to allocate buffer, size",
                "kIOGPUCommandBufferCallback",
                "error loading model: unable to allocate",
                "memory for the kv cache",
                "allocate the compute buffer",
                "memory for the compute buffer",
                "failed to allocate memory for the model",
                "params backend buffer failed",
                "OutOfHostMemory",
                "e pinned memory",
                kOfData,
                "ctx->mem_buffer != NULL"},
               read,
               explain};
  rule.anchors.insert(rule.anchors.end(), ollama_anchors().begin(), ollama_anchors().end());
  return rule;
}

}  // namespace headroom::doctor
