// What the heap's peak was for in a program of PyTorch: by the layers that its modules, backward passes and
// steps of optimizers are, and by the weights that these have.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attribution/recording_analysis.h"

namespace headroom::attribution {

struct PeakUse {
  std::string name;  // weights, activations, gradients, optimizer_state, other
  std::int64_t bytes = 0;
  double variance = 0;  // as in LiveFigures

  std::optional<double> standard_error() const {
    return variance > 0 ? std::optional(std::sqrt(variance)) : std::nullopt;
  }
};

// In this order, those of no bytes left out; they add up to analysis.peak_bytes. Empty where no module was
// called.
std::vector<PeakUse> peak_uses(const RecordingAnalysis& analysis);

}  // namespace headroom::attribution
