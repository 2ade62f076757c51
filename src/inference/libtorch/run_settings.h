// What the settings of a run come to with LibTorch, and which are refused. Without LibTorch's headers.
#pragma once

#include <optional>

#include "inference/backend_plugin.h"
#include "model/runtime_settings.h"

namespace headroom::libtorch {

// What is done to the graph once, at load: what ONNX Runtime calls its levels, in LibTorch's means.
enum class GraphWork {
  none,      // as it was saved
  freeze,    // calls inlined, weights constants, constants folded
  fold,      // and normalisation folded into convolutions
  optimize,  // and fused, with weights laid out for oneDNN on the CPU
};

struct Abilities {
  std::optional<int> compute_capability;  // its first number; absent: the CPU
  bool has_half_on_cpu = false;           // autocast to float16 there
};

// Refuses what LibTorch has no means for, so that no figure is told of a setting that was never in force. All
// throw plugin::Failure.
void check_settings(const hr_settings& settings, bool on_device);
// The one that is asked for, or LibTorch's own choice: bfloat16 where the GPU computes in it.
Precision precision_of(const hr_settings& settings, const Abilities& abilities);
GraphWork graph_work_of(const hr_settings& settings, Precision precision);

}  // namespace headroom::libtorch
