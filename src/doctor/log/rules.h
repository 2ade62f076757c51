// The rules, a file each; log_rule_list.cpp puts them in order.
#pragma once

#include "doctor/log/log_rule.h"

namespace headroom::doctor {

LogRule argus_rule();
LogRule container_kill_rule();
LogRule cublas_rule();
LogRule cuda_rule();
LogRule cudnn_engine_rule();
LogRule ggml_context_rule();
LogRule ggml_rule();
LogRule earlyoom_context_rule();
LogRule earlyoom_rule();
LogRule gpu_listed_rule();
LogRule gstreamer_rule();
LogRule host_memory_rule();
LogRule jetson_utils_rule();
LogRule kubernetes_context_rule();
LogRule kubernetes_kill_rule();
LogRule llm_server_rule();
LogRule nvgpu_rule();
LogRule nvidia_smi_rule();
LogRule nvmap_rule();
LogRule nvmap_permission_rule();
LogRule ollama_context_rule();
LogRule onnxruntime_rule();
LogRule oom_daemon_rule();
LogRule oom_kill_rule();
LogRule oomd_context_rule();
LogRule oomd_rule();
LogRule opencl_rule();
LogRule opencv_rule();
LogRule openvino_rule();
LogRule page_allocation_rule();
LogRule ray_rule();
LogRule rknn_rule();
LogRule shared_memory_rule();
LogRule killed_rule();
LogRule static_tls_rule();
LogRule swap_write_rule();
LogRule tegra_assert_rule();
LogRule tensorflow_rule();
LogRule tensorflow_retry_rule();
LogRule tensorrt_node_rule();
LogRule tensorrt_plugin_rule();
LogRule tensorrt_rule();
LogRule tensorrt_tactic_rule();
LogRule throttled_rule();
LogRule torch_context_rule();
LogRule torch_rule();
LogRule vllm_context_rule();
LogRule vllm_rule();
LogRule vulkan_rule();
Explanation vulkan_device_explanation();  // also of ggml's message
LogRule xla_rule();

}  // namespace headroom::doctor
