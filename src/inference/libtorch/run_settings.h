// Maps Headroom's settings to LibTorch, and rejects those that LibTorch does not support. Does not need
// LibTorch's headers.
#pragma once

#include <optional>

#include "inference/backend_plugin.h"
#include "types/runtime_settings.h"

namespace headroom::libtorch {

// How the graph is transformed at load. Corresponds to ONNX Runtime's graph levels.
enum class GraphOptimization {
  none,      // unchanged
  freeze,    // inline calls, make weights constant, fold constants
  fold,      // also fold normalisation into convolutions
  optimize,  // also fuse operators; on the CPU, convert weights to oneDNN's layout
};

struct Capabilities {
  std::optional<int> compute_capability;  // major number; absent: the CPU
  bool has_half_on_cpu = false;           // the CPU supports autocast to float16
};

// Throws plugin::Failure for settings that LibTorch does not support. Otherwise a report would show a
// setting that had no effect.
void check_settings(const hr_settings& settings, bool on_device);
// The requested precision, or the default: bfloat16 if the GPU supports it, else float32. Throws
// plugin::Failure.
Precision precision_of(const hr_settings& settings, const Capabilities& capabilities);
GraphOptimization graph_optimization_of(const hr_settings& settings, Precision precision);

}  // namespace headroom::libtorch
