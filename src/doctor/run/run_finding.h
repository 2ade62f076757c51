// What a run of headroom bench tells: a file each, <name>_finding.cpp, and one list, run_finding_list.cpp.
#pragma once

#include <optional>
#include <vector>

#include "types/bench_result.h"
#include "types/finding.h"

namespace headroom::doctor {

using ModelFinding = std::optional<Finding> (*)(const ModelResult&, const BenchResult&);
// Of several models, or of files that several of them are: one each.
using RunFinding = std::vector<Finding> (*)(const BenchResult&);

// Of each model of a run.
std::optional<Finding> convolution_search(const ModelResult& model, const BenchResult&);
std::optional<Finding> leak_of_cleanups(const ModelResult& model, const BenchResult&);
std::optional<Finding> limit_exceeded(const ModelResult& model, const BenchResult&);
std::optional<Finding> load_peak_over_run_peak(const ModelResult& model, const BenchResult&);
std::optional<Finding> loading_leaves_copies(const ModelResult& model, const BenchResult&);
std::optional<Finding> model_out_of_memory(const ModelResult& model, const BenchResult&);
std::optional<Finding> oversized_arena(const ModelResult& model, const BenchResult&);
std::optional<Finding> oversized_workspace(const ModelResult& model, const BenchResult&);
std::optional<Finding> pinned_memory_on_unified_memory(const ModelResult& model, const BenchResult&);
std::optional<Finding> smaller_settings(const ModelResult& model, const BenchResult&);

// Of the run.
std::vector<Finding> duplicate_models(const BenchResult& result);
std::vector<Finding> large_frame_buffers(const BenchResult& result);
std::vector<Finding> model_leaves_memory(const BenchResult& result);
std::vector<Finding> models_do_not_fit_together(const BenchResult& result);
std::vector<Finding> run_incomplete(const BenchResult& result);
std::vector<Finding> soft_limit(const BenchResult& result);
std::vector<Finding> throttled_run(const BenchResult& result);

// In the order in which they are looked for.
const std::vector<ModelFinding>& model_finding_list();
const std::vector<RunFinding>& run_finding_list();

}  // namespace headroom::doctor
