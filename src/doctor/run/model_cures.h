// What findings on a run's models have in common: which settings a model can have, and the cures made of
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "types/bench_result.h"
#include "types/finding.h"

namespace headroom::doctor {

// Differences below this are the noise of pages and allocators.
inline constexpr std::int64_t kWorthTellingOfModels = 16 << 20;

inline bool is_onnxruntime(const ModelResult& model) { return model.backend.starts_with("onnxruntime"); }
inline bool is_on_cpu(const ModelResult& model) { return model.settings.device == "cpu"; }
inline bool can_map(const ModelResult& model) {
  return is_onnxruntime(model) && is_on_cpu(model) && !model.settings.mapped;
}

// `words` behind the model's path: what a person writes, and what --try runs.
Cure with_settings(const ModelResult& model, std::string what, const std::string& words,
                   std::optional<Bytes> saves = std::nullopt);

// The same where it sets what is not set so already.
void add_settings(Finding& finding, const ModelResult& model, std::string what, const std::string& words,
                  std::optional<Bytes> saves = std::nullopt);

// What takes less memory, the cheapest in time first; only what is not set so already.
void add_leaner_settings(Finding& finding, const ModelResult& model);

// Not tried: it finds less.
Cure smaller_input();

}  // namespace headroom::doctor
