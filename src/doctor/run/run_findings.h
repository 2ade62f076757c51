// Findings in a run of headroom bench.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "types/bench_result.h"
#include "types/finding.h"

namespace headroom::doctor {

// `file`: the run's report.json. Unsorted.
std::vector<Finding> run_findings(const BenchResult& result, const std::string& file);

// To add a finding: write its function, declare it, and add it to a list below.
using ModelFinding = std::optional<Finding>(const ModelResult& model, const BenchResult& run);
using RunFinding = std::vector<Finding>(const BenchResult& run);

// limits.cpp
ModelFinding model_out_of_memory, model_failed, limit_exceeded;
RunFinding soft_limit, models_do_not_fit_together;
// loading.cpp
ModelFinding load_peak_over_run_peak, loading_leaves_copies, leak_of_cleanups;
RunFinding duplicate_models, model_leaves_memory;
// run_findings.cpp
ModelFinding oversized_arena, oversized_workspace, smaller_settings, convolution_search,
    pinned_memory_on_unified_memory;
RunFinding large_frame_buffers, run_incomplete, throttled_run;

// In the order of the report among findings of equal severity.
inline constexpr ModelFinding* kModelFindings[] = {
    model_out_of_memory,
    model_failed,
    limit_exceeded,
    leak_of_cleanups,
    load_peak_over_run_peak,
    loading_leaves_copies,
    oversized_arena,
    oversized_workspace,
    smaller_settings,
    convolution_search,
    pinned_memory_on_unified_memory,
};
inline constexpr RunFinding* kRunFindings[] = {
    run_incomplete,      models_do_not_fit_together, soft_limit,          throttled_run,
    large_frame_buffers, duplicate_models,           model_leaves_memory,
};

// Smaller differences are noise of pages and allocators.
inline constexpr Bytes kLeastOfModels = mebibytes(16);

inline bool is_onnxruntime(const ModelResult& model) { return model.backend.starts_with("onnxruntime"); }
inline bool is_on_cpu(const ModelResult& model) { return model.settings.device == "cpu"; }
inline bool can_map(const ModelResult& model) {
  return is_onnxruntime(model) && is_on_cpu(model) && !model.settings.mapped;
}
// The largest that was in memory while the model was loaded or run.
Bytes peak_of(const ModelMemory& memory);

// A cure with settings: the text that a person adds behind the model's path, which --try runs.
Cure with_settings(const ModelResult& model, std::string what, const std::string& settings,
                   std::optional<Bytes> saves = std::nullopt);

// Adds the cure unless the model has these settings already.
void add_settings(Finding& finding, const ModelResult& model, std::string what, const std::string& settings,
                  std::optional<Bytes> saves = std::nullopt);

// Settings that need less memory, the cheapest in time first.
void add_leaner_settings(Finding& finding, const ModelResult& model);

// --try does not run it: a smaller input detects less.
Cure smaller_input();

}  // namespace headroom::doctor
