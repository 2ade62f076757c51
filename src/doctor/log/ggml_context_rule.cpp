// What llama.cpp and its like print while they load: the figures that their refusals lack, and by which cures
// are computed; which program it is; and that it tries again with less.
#include "doctor/log/ggml_programs.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  // "llama_context: compute buffer allocation failed, retrying without pipeline parallelism"; if that fails,
  // too, a refusal follows.
  message.answers = has(line, "retrying without pipeline parallelism");
  if (message.answers) return message;
  // "load_tensors: offloaded 33/33 layers to GPU"
  if (const auto offloaded = text_after(line, "offloaded "); offloaded && has(*offloaded, " layers to GPU")) {
    message.add("gpu_layers", integer_after(*offloaded, ""));
    message.add("layers", integer_after(*offloaded, "/"));
  }
  // "print_info: n_layer          = 32", "llama_context: n_ctx         = 8192"
  const auto setting = [&](std::string_view name) -> std::optional<std::int64_t> {
    const auto rest = text_after(line, name);
    const std::size_t at = rest ? rest->find_first_not_of(' ') : line.npos;
    if (at == line.npos || (*rest)[at] != '=') return std::nullopt;
    const auto value = integer_after(*rest, "=");
    constexpr std::int64_t kMost = 100'000'000;  // what is more, or none, is no setting that a model has
    return value && *value > 0 && *value <= kMost ? value : std::nullopt;
  };
  message.add("layers", setting(": n_layer "));
  message.add("context_length", setting(": n_ctx "));
  message.add("micro_batch", setting(": n_ubatch "));
  if (has(line, "CUDA") || has(line, "ROCm") || has(line, "Vulkan")) {
    message.add("model_buffer_bytes", size_after(line, "model buffer size ="));
    message.add("kv_cache_bytes", size_after(line, "KV buffer size ="));
    // "using device CUDA0 (Orin) - 3875 MiB free"
    if (const auto device = text_after(line, "using device "))
      message.add("free_bytes", size_after(*device, ") - "));
  }
  // "llama_new_context_with_model: KV self size  = 1005.79 MiB, …", since 2025 "llama_kv_cache: size =
  // 1005.79 MiB ( 4096 cells, …": of all devices, behind those of each.
  auto all_cache = size_after(line, "KV self size  =");
  if (!all_cache && has(line, "llama_kv_cache") && has(line, " cells,"))
    all_cache = size_after(line, ": size =");
  if (all_cache) message.set({"kv_cache_bytes", all_cache->count});
  message.add("pipeline_copies", integer_after(line, "pipeline parallelism enabled (n_copies="));
  message.add("program", ggml_program_of(line));
  if (is_word(line, "ggml_vulkan") || has(line, "loaded Vulkan backend") || has(line, "llama_model_loader: "))
    message.add("backend", "ggml");
  if (message.figures.empty()) return std::nullopt;
  return message;
}

Finding explain(const LogMessage&) { return {}; }  // it is none by itself

}  // namespace

LogRule ggml_context_rule() {
  LogRule rule{"ggml-context",
               {" layers to GPU", ": n_layer ", ": n_ctx ", ": n_ubatch ", "model buffer size =",
                "KV buffer size =", "using device ", "retrying without pipeline parallelism", "ggml_vulkan",
                "d Vulkan backend", "ama_model_loader: ", "l: KV self size", "t: KV self size",
                "lama_kv_cache", "lelism enabled (n_copies"},
               read,
               explain};
  const auto& of_programs = ggml_program_anchors();
  rule.anchors.insert(rule.anchors.end(), of_programs.begin(), of_programs.end());
  rule.context_of = rule.answers = "ggml";
  return rule;
}

}  // namespace headroom::doctor
