#include "doctor/log/rule_text.h"

#include <algorithm>

#include "base/text.h"

namespace headroom::doctor {
namespace {

// Cures that several families have.
constexpr std::string_view kCommonCures = R"rules(
cures see-holders: see which processes hold the memory => headroom top
cures see-holders-now: see which processes hold the memory while it happens => headroom top
cures see-holders-at-start: see which processes hold the memory while it starts => headroom top
cures see-others-on-gpu: see which other processes hold GPU memory => headroom top
cures end-holder: find the process that holds the memory, and end it => headroom top
cures end-holder-of-rest: find the process that holds the rest, and end it => headroom top
cures trace-stacks: see which call stacks hold the memory => headroom trace -- COMMAND
cures smaller-batch: use a smaller batch or input => batch_size = batch_size // 2
cures half-of-batch: halve the batch size, or use a smaller input => batch_size = batch_size // 2 :: saves
      requested_bytes/2
cures shell-limits: check the shell's limits => ulimit -a; cat /proc/sys/vm/overcommit_memory
cures drop-page-cache-on-jetson: on a Jetson, drop the page cache before the program starts => sync; echo 1 |
      sudo tee /proc/sys/vm/drop_caches
# Only where the log shows that CPU and GPU share the memory (rule unified-memory).
cures drop-page-cache: drop the page cache, which counts as used for the GPU[[ ({page_cache_bytes})]] => sync;
      echo 1 | sudo tee /proc/sys/vm/drop_caches :: saves page_cache_bytes :: when unified_memory
cures compact-memory: compact free memory into large blocks => echo 1 | sudo tee /proc/sys/vm/compact_memory
cures keep-pages-free: keep more pages free: 1/30 of the memory => sudo sysctl vm.min_free_kbytes=$(awk
      '/MemTotal/ {print int($2/30)}' /proc/meminfo)
cures see-vulkan-limit: see the driver's largest allocation => vulkaninfo | grep -E
      'maxMemoryAllocationSize|heapSize|size.*GiB'
cures of-vulkan
  cure @see-holders-now
  cure use smaller textures, buffers or windows
  cure @see-vulkan-limit
cures more-than-intels-piece: allow Intel's driver to allocate more than 4 GiB in one piece =>
      UR_L0_USE_RELAXED_ALLOCATION_LIMITS=1
cures check-kernel-log: check whether the kernel's OOM killer did it => journalctl -k | headroom doctor -
cures read-kernel-report: read the kernel's report of the kill => journalctl -k | headroom doctor -
)rules";

// The particular before the general: PyTorch's message has "CUDA out of memory" in it, too. Rules that are
// not listed come last.
constexpr std::string_view kOrder = R"(
mlc gxf gxf-pool vpi usbfs
static-tls gpu-listed vllm ray pytorch tegra-assert tensorflow-retry xla tensorflow ggml cublas
tensorrt-tactic tensorrt-node tensorrt-plugin tensorrt tensorrt-load onnxruntime opencv opencl jetson-utils
nvbuf-session nvmap-permission
nvmap nvgpu page-allocation oom-kill systemd-oomd earlyoom oom-daemon kubernetes-kill
container-kill memory-controller killed llm-server openvino rknn vulkan amd-gpu cuda
  managed-heap host-memory
ggml-context vllm-context
pytorch-context shared-memory ollama-context gstreamer argus cudnn-engine throttled nvidia-smi
kubernetes-context swap-write systemd-oomd-context earlyoom-context android-context
)";

std::vector<LogRule> sorted_rules() {
  std::vector<RuleFamily> families{{kCommonCures}};
  for (const auto family : {pytorch_rules, cuda_rules, tensorflow_rules, tensorrt_rules, ggml_rules,
                            llm_servers_rules, host_rules, kernel_rules, containers_rules, killed_rules})
    families.push_back(family());
  std::vector<LogRule> rules = parse_rules(families);
  const auto names = split_words(kOrder);
  const auto rank_of = [&names](const LogRule& rule) { return std::ranges::find(names, rule.name); };
  std::ranges::stable_sort(rules, {}, rank_of);
  return rules;
}

}  // namespace

const std::vector<LogRule>& log_rules() {
  static const std::vector<LogRule> kRules = sorted_rules();
  return kRules;
}

}  // namespace headroom::doctor
