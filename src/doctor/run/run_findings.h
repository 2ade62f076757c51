// Findings in a run of headroom bench.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "types/bench_result.h"
#include "types/finding.h"

namespace headroom::doctor {

// `file`: the run's report.json. Unsorted.
std::vector<Finding> run_findings(const BenchResult& result, const std::string& file);

// To add a finding: write its function, declare it here if it is in another file, and add it to a list in
// run_findings().
using ModelFinding = std::optional<Finding>(const ModelResult& model, const BenchResult& run);
using RunFinding = std::vector<Finding>(const BenchResult& run);
// limits.cpp
ModelFinding model_out_of_memory, model_failed, limit_exceeded;
RunFinding soft_limit, models_do_not_fit_together, models_failed_together;
// loading.cpp
ModelFinding load_peak_over_run_peak, loading_leaves_copies, leak_of_cleanups;
RunFinding duplicate_models, model_leaves_memory;

// Smaller differences are noise of pages and allocators.
inline constexpr Bytes kLeastOfModels = mebibytes(16);

inline bool is_onnxruntime(const ModelResult& model) { return model.backend.starts_with("onnxruntime"); }
inline bool is_on_cpu(const ModelResult& model) { return model.settings.device == "cpu"; }
inline bool can_map(const ModelResult& model) {
  return is_onnxruntime(model) && is_on_cpu(model) && !model.settings.mapped;
}
// A cure with settings: the text that a person adds behind the model's path, which --try runs.
Cure with_settings(const ModelResult& model, std::string what, const std::string& settings,
                   std::optional<Bytes> saves = std::nullopt);

// Adds such a cure unless the model has these settings already.
void add_settings(Finding& finding, const ModelResult& model, const char* what, const char* settings,
                  std::optional<Bytes> saves = std::nullopt);

}  // namespace headroom::doctor
