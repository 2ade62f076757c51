#include "attribution/peak_uses.h"

#include <array>

namespace headroom::attribution {
namespace {

using recording::ScopeSource;

enum Use : std::size_t { weights, activations, gradients, optimizer_state, other };
constexpr std::array<const char*, 5> kNames = {"weights", "activations", "gradients", "optimizer_state",
                                               "other"};

// What is allocated in a layer itself. One that says nothing about it (a range of NVTX in a module) is of the
// use of the layer around it; a module that runs again in the backward pass has activations.
Use use_of(const LayerFigures& layer, Use around) {
  switch (layer.source) {
    case ScopeSource::weights:
      return weights;
    case ScopeSource::module:
      return activations;
    case ScopeSource::phase:
      return layer.path.ends_with("optimizer.step") ? optimizer_state : gradients;
    default:
      return around;
  }
}

}  // namespace

std::vector<PeakUse> peak_uses(const RecordingAnalysis& analysis) {
  std::array<PeakUse, kNames.size()> sums;
  std::vector<Use> uses;  // a parent comes before its children
  bool has_modules = false;
  for (const LayerFigures& layer : analysis.layers) {
    has_modules |= layer.source == ScopeSource::module;
    uses.push_back(use_of(layer, layer.parent ? uses[*layer.parent] : other));
    PeakUse& sum = sums[uses.back()];
    add_wrapping(sum.bytes, layer.self.peak_bytes);
    sum.variance += layer.self.peak_variance;
  }
  std::vector<PeakUse> found;
  for (std::size_t i = 0; has_modules && i < sums.size(); ++i) {
    if (sums[i].bytes == 0) continue;
    sums[i].name = kNames[i];
    found.push_back(sums[i]);
  }
  return found;
}

}  // namespace headroom::attribution
