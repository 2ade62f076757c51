#include "doctor/log/line_pattern.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// Each line of a wording has one of these.
void add_anchors(const Wording& wording, std::vector<std::string_view>& anchors) {
  std::string_view best;
  for (const std::string_view pattern : wording.all) {
    const std::string_view anchor = anchor_of_pattern(pattern);
    if (best.empty() || is_rarer_anchor(anchor, best)) best = anchor;
  }
  if (!best.empty())
    anchors.push_back(best);
  else if (anchors.empty())
    for (const std::string_view words : wording.any) anchors.push_back(anchor_of_pattern(words));
}

std::vector<LogRule> with_anchors(std::vector<LogRule> rules) {
  for (LogRule& rule : rules)
    for (const Wording& wording : rule.wordings) add_anchors(wording, rule.anchors);
  return rules;
}

}  // namespace

const std::vector<LogRule>& log_rules() {
  // The particular before the general: PyTorch's message has "CUDA out of memory" in it, too.
  static const std::vector<LogRule> kRules = with_anchors({
      static_tls_rule(),
      gpu_listed_rule(),
      vllm_rule(),
      ray_rule(),
      torch_rule(),
      tegra_assert_rule(),
      tensorflow_retry_rule(),
      xla_rule(),
      tensorflow_rule(),
      ggml_rule(),
      cublas_rule(),
      tensorrt_tactic_rule(),
      tensorrt_node_rule(),
      tensorrt_plugin_rule(),
      tensorrt_rule(),
      onnxruntime_rule(),
      opencv_rule(),
      opencl_rule(),
      jetson_utils_rule(),
      nvmap_permission_rule(),
      nvmap_rule(),
      nvgpu_rule(),
      page_allocation_rule(),
      oom_kill_rule(),
      oomd_rule(),
      earlyoom_rule(),
      oom_daemon_rule(),
      kubernetes_kill_rule(),
      container_kill_rule(),
      killed_rule(),
      llm_server_rule(),
      openvino_rule(),
      rknn_rule(),
      vulkan_rule(),
      cuda_rule(),
      host_memory_rule(),
      ggml_context_rule(),
      vllm_context_rule(),
      torch_context_rule(),
      shared_memory_rule(),
      ollama_context_rule(),
      gstreamer_rule(),
      argus_rule(),
      cudnn_engine_rule(),
      throttled_rule(),
      nvidia_smi_rule(),
      kubernetes_context_rule(),
      swap_write_rule(),
      oomd_context_rule(),
      earlyoom_context_rule(),
  });
  return kRules;
}

}  // namespace headroom::doctor
