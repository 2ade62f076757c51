#include "inference/libtorch/run_settings.h"

#include <fmt/format.h>

#include "inference/plugin/plugin_failure.h"

namespace headroom::libtorch {
namespace {

using plugin::Failure;

constexpr int kAmpere = 8;  // the first generation with bfloat16

}  // namespace

void check_settings(const hr_settings& settings, bool on_device) {
  if (settings.threads < 0)
    throw Failure{HR_ERROR_FAILED,
                  fmt::format("{} threads is invalid; use 0 for the runtime's choice", settings.threads)};
  if (settings.arena == 0 || settings.arena_same_as_requested != 0)
    throw Failure{HR_ERROR_FAILED,
                  on_device ? "LibTorch's caching allocator has no growth setting; omit arena and extend"
                            : "LibTorch has no arena on the CPU; omit arena and extend"};
  if (settings.memory_pattern == 0)
    throw Failure{HR_ERROR_FAILED, "LibTorch has no memory pattern; omit pattern=off"};
  if (settings.spinning == 0)
    throw Failure{HR_ERROR_FAILED,
                  "OpenMP controls the spinning of LibTorch's threads; omit spinning=off and set "
                  "OMP_WAIT_POLICY in the environment"};
  if (settings.conv_small_workspace != 0 || settings.conv_search == static_cast<int>(ConvSearch::standard))
    throw Failure{HR_ERROR_FAILED,
                  "LibTorch supports only convolutions=exhaustive (cuDNN's benchmark) and heuristic (cuDNN's "
                  "rules), without a workspace limit"};
  if (settings.mapped != 0)
    throw Failure{HR_ERROR_FAILED, "LibTorch reads a module's weights into memory; omit mapped=on"};
  if (settings.device_graph != 0)
    throw Failure{HR_ERROR_FAILED, "Headroom cannot capture LibTorch runs as a graph; omit --capture-graph"};
}

Precision precision_of(const hr_settings& settings, const Capabilities& capabilities) {
  const bool on_device = capabilities.compute_capability.has_value();
  const bool has_bf16 = capabilities.compute_capability.value_or(0) >= kAmpere;
  const auto asked = static_cast<Precision>(settings.precision);
  if (asked == Precision::automatic) return has_bf16 ? Precision::bf16 : Precision::fp32;
  if (asked == Precision::fp16 && !on_device && !capabilities.has_half_on_cpu)
    throw Failure{HR_ERROR_FAILED,
                  "autocast to fp16 on the CPU needs LibTorch 2.4 or newer; use --precision bf16 or fp32"};
  if (asked == Precision::bf16 && on_device && !has_bf16)
    throw Failure{
        HR_ERROR_FAILED,
        "this GPU does not support bf16, which needs Ampere or newer; use --precision fp16 or fp32"};
  return asked;
}

GraphOptimization graph_optimization_of(const hr_settings& settings, Precision precision) {
  switch (settings.graph_level) {
    case 0:
      return GraphOptimization::none;
    case 1:
      return GraphOptimization::freeze;
    case 2:
      return GraphOptimization::fold;
    case 99:
      // Autocast cannot change the type of fused or oneDNN operators.
      return settings.prepacking == 0 || precision != Precision::fp32 ? GraphOptimization::fold
                                                                      : GraphOptimization::optimize;
    default:
      throw Failure{HR_ERROR_FAILED,
                    fmt::format("invalid graph level {}; use 0, 1, 2 or 99", settings.graph_level)};
  }
}

}  // namespace headroom::libtorch
