#include "bench/common_limit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

namespace headroom::bench {

void tell_apart_at_common_limit(std::vector<ModelResult>& together, const std::vector<ModelResult>& alone) {
  std::vector<std::string> too_large;  // by themselves
  for (const ModelResult& model : alone)
    if (model.status == ModelStatus::oom) too_large.push_back(model.name);
  for (ModelResult& model : together) {
    if (model.status != ModelStatus::oom) continue;
    const auto same = [&](const ModelResult& other) { return other.name == model.name; };
    const auto by_itself = std::find_if(alone.begin(), alone.end(), same);
    if (by_itself == alone.end()) continue;
    model.error += ", which all models share; ";
    if (by_itself->status == ModelStatus::oom) {
      model.error += "alone it exceeds it, too";
    } else if (by_itself->status == ModelStatus::ok) {
      model.error += too_large.empty()
                         ? "alone it stays within it: the models do not fit together"
                         : fmt::format("alone it stays within it, unlike {}", fmt::join(too_large, ", "));
      model.memory.within_limit.reset();  // it is not the one that exceeded the limit, nor did it live
    } else {
      model.error += "what it needs alone is not known";
    }
  }
}

}  // namespace headroom::bench
