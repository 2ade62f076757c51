// Models that each fit and not all at once: side by side (--parallel), in one process (--pipeline), and in
// one whose pool keeps a budget (--pool).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "doctor/cure_trials.h"
#include "doctor/new_finding.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {
namespace {

bool came_through_alone(const BenchResult& result, const std::string& name) {
  return std::any_of(result.models.begin(), result.models.end(), [&](const ModelResult& model) {
    return model.name == name && model.status == ModelStatus::ok;
  });
}

Finding all_at_once(const BenchResult& result, std::string title, std::string cause,
                    const std::string& error) {
  Finding finding = new_finding("models-do-not-fit-together", Severity::severe, std::move(title),
                                std::move(cause), Confidence::certain);
  if (!error.empty()) finding.evidence = {{"", 0, error}};
  if (result.limit) finding.figures.push_back({"limit_bytes", result.limit->bytes.count});
  return finding;
}

void add_cures(Finding& finding, const BenchResult& result) {
  if (result.limit && result.options && !result.pool) {
    const std::string budget = exact_size(result.limit->bytes);
    finding.cures.push_back(
        {"use a model pool: one process that loads and evicts models to stay inside the limit",
         command_at_once(result, {"--pool", budget}),
         {}});
  }
  finding.cures.push_back(
      {"plan which models run together, and with which settings", "headroom plan BUDGET.toml", {}});
}

void side_by_side(const BenchResult& result, std::vector<Finding>& found) {
  const ParallelResult& parallel = *result.parallel;
  std::vector<std::string> names, errors;
  bool all_lived = true;
  for (const ModelResult& model : parallel.together) {
    all_lived = all_lived && model.status == ModelStatus::ok;
    if (model.status != ModelStatus::oom || !came_through_alone(result, model.name)) continue;
    names.push_back(model.name);
    errors.push_back(model.name + ": " + model.error);
  }
  const bool went_over = all_lived && parallel.within_limit == false;
  if (names.empty() && !went_over) return;
  Finding finding =
      all_at_once(result,
                  went_over ? std::string("All models together used more memory than the limit")
                            : fmt::format("{} ran out of memory when all models ran together, but not alone",
                                          fmt::join(names, ", ")),
                  went_over ? "Each model fits alone. The limit did not stop all of them together, but a "
                              "machine of that size would."
                            : "Each model fits alone, but all of them together do not.",
                  fmt::format("{}", fmt::join(errors, "; ")));
  if (parallel.joint_peak) finding.figures.push_back({"joint_peak_bytes", parallel.joint_peak->count});
  if (parallel.sum_of_peaks) finding.figures.push_back({"sum_of_peaks_bytes", parallel.sum_of_peaks->count});
  add_cures(finding, result);
  if (parallel.sum_of_peaks && result.options) {
    BenchResult larger = result;
    larger.options->memory_limit = *parallel.sum_of_peaks;
    finding.cures.push_back({fmt::format("raise the limit to the sum of their individual peaks, {}",
                                         format_bytes(*parallel.sum_of_peaks)),
                             command_at_once(larger, {"--parallel"}),
                             {}});
  }
  found.push_back(std::move(finding));
}

void in_one_process(const BenchResult& result, const char* what, ModelStatus status, const std::string& error,
                    const ModelMemory& memory, std::vector<Finding>& found) {
  const bool went_over = status != ModelStatus::oom && memory.within_limit == false;
  if (status != ModelStatus::oom && !went_over) return;
  Finding finding = all_at_once(
      result,
      fmt::format("The {} {}", what, went_over ? "used more memory than the limit" : "ran out of memory"),
      "All models ran in one process.", error);
  if (memory.run_peak) finding.figures.push_back({"run_peak_bytes", memory.run_peak->count});
  add_cures(finding, result);
  found.push_back(std::move(finding));
}

}  // namespace

std::vector<Finding> models_do_not_fit_together(const BenchResult& result) {
  std::vector<Finding> found;
  if (result.parallel) side_by_side(result, found);
  if (const auto& pipeline = result.pipeline)
    in_one_process(result, "pipeline", pipeline->status, pipeline->error, pipeline->memory, found);
  if (const auto& pool = result.pool)
    in_one_process(result, "pool", pool->status, pool->error, pool->memory, found);
  return found;
}

}  // namespace headroom::doctor
