#include "inference/libtorch/run_settings.h"

#include <fmt/format.h>

#include "inference/plugin/plugin_failure.h"

namespace headroom::libtorch {
namespace {

using plugin::Failure;

constexpr int kAmpere = 8;  // the first generation that computes in bfloat16

}  // namespace

void check_settings(const hr_settings& settings, bool on_device) {
  if (settings.threads < 0)
    throw Failure{HR_ERROR_FAILED,
                  fmt::format("{} threads cannot be; use 0 for the runtime's choice", settings.threads)};
  if (settings.arena == 0 || settings.arena_same_as_requested != 0)
    throw Failure{HR_ERROR_FAILED, on_device ? "the growth of LibTorch's caching allocator cannot be set"
                                             : "LibTorch has no arena on the CPU that could be set"};
  if (settings.memory_pattern == 0)
    throw Failure{HR_ERROR_FAILED, "LibTorch plans no memory ahead, so there is no pattern to switch off"};
  if (settings.spinning == 0)
    throw Failure{
        HR_ERROR_FAILED,
        "how long LibTorch's threads spin is OpenMP's setting (OMP_WAIT_POLICY in the environment)"};
  if (settings.conv_small_workspace != 0 || settings.conv_search == static_cast<int>(ConvSearch::standard))
    throw Failure{HR_ERROR_FAILED,
                  "LibTorch times convolutions (exhaustive, cuDNN's benchmark) or asks cuDNN's rules "
                  "(heuristic), and bounds no workspace"};
  if (settings.mapped != 0)
    throw Failure{HR_ERROR_FAILED, "LibTorch reads a module's weights into memory; leave mapped=on out"};
  if (settings.device_graph != 0)
    throw Failure{HR_ERROR_FAILED, "runs of LibTorch are not captured; leave --capture-graph out"};
}

Precision precision_of(const hr_settings& settings, const Abilities& abilities) {
  const bool on_device = abilities.compute_capability.has_value();
  const bool has_bf16 = abilities.compute_capability.value_or(0) >= kAmpere;
  const auto asked = static_cast<Precision>(settings.precision);
  if (asked == Precision::automatic) return has_bf16 ? Precision::bf16 : Precision::fp32;
  if (asked == Precision::fp16 && !on_device && !abilities.has_half_on_cpu)
    throw Failure{HR_ERROR_FAILED,
                  "autocast to fp16 on the CPU came with LibTorch 2.4; use --precision bf16 or fp32"};
  if (asked == Precision::bf16 && on_device && !has_bf16)
    throw Failure{HR_ERROR_FAILED,
                  "this GPU does not compute in bf16, which came with Ampere; use --precision fp16 or fp32"};
  return asked;
}

GraphWork graph_work_of(const hr_settings& settings, Precision precision) {
  switch (settings.graph_level) {
    case 0:
      return GraphWork::none;
    case 1:
      return GraphWork::freeze;
    case 2:
      return GraphWork::fold;
    case 99:
      // What is fused or laid out for oneDNN has no type that autocast could change.
      return settings.prepacking == 0 || precision != Precision::fp32 ? GraphWork::fold : GraphWork::optimize;
    default:
      throw Failure{HR_ERROR_FAILED,
                    fmt::format("graph level {} does not exist; use 0, 1, 2 or 99", settings.graph_level)};
  }
}

}  // namespace headroom::libtorch
