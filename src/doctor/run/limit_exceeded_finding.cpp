#include <fmt/format.h>

#include "doctor/new_finding.h"
#include "doctor/run/model_cures.h"
#include "doctor/run/run_finding.h"

namespace headroom::doctor {

std::optional<Finding> limit_exceeded(const ModelResult& model, const BenchResult&) {
  if (model.memory.within_limit.value_or(true) || model.status == ModelStatus::oom) return std::nullopt;
  Finding finding = new_finding(
      "limit-exceeded", Severity::severe, fmt::format("{} used more memory than the limit", model.name),
      "The limit did not stop it. On a machine of that size, the kernel would have killed it.");
  finding.figures = {{"violations", model.memory.violations}};
  finding.cures = {{"search for settings that fit", "headroom bench --tune", {}}};
  add_leaner_settings(finding, model);
  finding.cures.push_back(smaller_input());
  return finding;
}

}  // namespace headroom::doctor
