#include "doctor/log/rules.h"

namespace headroom::doctor {

const std::vector<LogRule>& log_rules() {
  // The particular before the general: PyTorch's message has "CUDA out of memory" in it, too.
  static const std::vector<LogRule> kRules{
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
      oom_daemon_rule(),
      kubernetes_kill_rule(),
      container_kill_rule(),
      scheduler_kill_rule(),
      supervisor_killed_rule(),
      shell_killed_rule(),
      heap_limit_rule(),
      llm_server_rule(),
      physx_rule(),
      openvino_rule(),
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
      kubernetes_context_rule(),
      swap_write_rule(),
  };
  return kRules;
}

}  // namespace headroom::doctor
